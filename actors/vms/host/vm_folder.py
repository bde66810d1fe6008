"""The folder of one VM, named by its id, with its record and keys, its sockets, and its processes.

It exists from before the VM is made until all is removed.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from actors.vms.provider import VmError, VmLost
from storage import boot_id, immutable

if TYPE_CHECKING:
    from collections.abc import Iterator


_BACKLOG = 128
_PAUSE_SECONDS = 0.01
_REMOVALS = 3
_NO_LOCK = {errno.ENOENT, errno.ENOSPC, errno.EDQUOT}
"""There is no such VM, or no room for a lock, so that nobody else makes the VM either."""


@immutable
class VmRecord:
    """The facts about a VM that any process needs to connect to it and to free it.

    ``boot`` is the id of the host's boot in which it was made.
    """

    private_key: str
    host_key: str
    groups: tuple[str, ...]
    boot: str = field(default_factory=boot_id)


@immutable
class VmFolder:
    """The folder of a VM.

    It has ``record``, ``lock``, the sockets ``ssh`` and ``control``, ``log``, ``attaching``, ``attached`` and
    ``ended``. Processes of the VM hold ``lock`` as long as any of them lives.
    """

    folder: Path

    @property
    def id(self) -> str:
        """The VM's name."""
        return self.folder.name

    def make(self) -> None:
        """Make the folder. Raises VmError if the VM exists already."""
        try:
            self.folder.mkdir(mode=0o700)
        except FileExistsError as error:
            message = f"VM {self.id} already exists"
            raise VmError(message) from error

    def occupy(self) -> None:
        """Make the folder if it is missing, so that no other thread makes the VM while this one destroys it."""
        with suppress(OSError):  # then nobody can
            self.folder.mkdir(mode=0o700, exist_ok=True)

    def remove(self) -> None:
        """Remove the folder with everything in it; a missing folder is fine. Raises VmError if it stays."""
        # A thread that makes the VM may add the file of its lock meanwhile, and then learns that the VM has ended.
        for _ in range(_REMOVALS):
            shutil.rmtree(self.folder, ignore_errors=True)
            if not self.folder.exists():
                return
        message = f"the folder of VM {self.id} cannot be removed: see {self.folder}"
        raise VmError(message)

    def write(self, record: VmRecord) -> None:
        """Write the record, before any part of the VM is made."""
        descriptor = os.open(self.folder / "record", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(json.dumps({each: getattr(record, each) for each in VmRecord.__match_args__}).encode())

    def record(self) -> VmRecord:
        """Read the record. Raises VmLost, also if a crash of the host has cut it, or filled it with zeros."""
        try:
            fields = json.loads((self.folder / "record").read_bytes())
        except (FileNotFoundError, ValueError) as error:
            raise self._missing() from error
        boot = fields.get("boot") or boot_id()  # a VM of an earlier release
        return VmRecord(fields["private_key"], fields["host_key"], tuple(fields["groups"]), boot)

    def check_boot(self) -> None:
        """Raise VmLost if the VM ended with its host, for then the host's disk may lack what it wrote."""
        if self.record().boot != boot_id():
            message = f"VM {self.id} ended with its host, before its disk was kept"
            raise VmLost(message)

    @contextmanager
    def locked(self) -> Iterator[int]:
        """Hold the VM's lock while it is made; yield the descriptor to pass to its first process.

        So `end` waits for what makes the VM, too, and nothing is made once it has returned. The file gets its name only
        once it is locked: it is never found free too early. Raises VmError if the VM was ended before.
        """
        unnamed = self.folder / "lock.new"
        with ExitStack() as stack:
            try:
                descriptor = os.open(unnamed, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
                stack.callback(os.close, descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                self._lock.hardlink_to(unnamed)
                unnamed.unlink()
            except (FileExistsError, FileNotFoundError) as error:
                message = f"VM {self.id} was destroyed while it was made"
                raise VmError(message) from error
            yield descriptor

    def log(self) -> str:
        """Return the end of the VM's log, the errors of the programs around it."""
        try:
            return (self.folder / "log").read_text(encoding="utf-8", errors="replace").strip()[-1000:]
        except FileNotFoundError:
            return ""

    @property
    def alive(self) -> bool:
        """True if the VM runs, or is about to; processes around it may outlive it."""
        return not self._ended.exists() and any(process.alive for process in self.processes())

    def monitor(self) -> int:
        """Return the id of the VM's monitor, which is the last process that was noted. Raises VmLost."""
        alive = [process.pid for process in self.processes() if process.alive]
        if not alive:
            message = f"VM {self.id} has ended"
            raise VmLost(message)
        return alive[-1]

    def processes(self) -> Iterator[ProcessIdentity]:
        """Yield the processes that made the VM or run in it; their ids may be of other processes now."""
        try:
            lines = self._lock.read_text(encoding="ascii").splitlines(keepends=True)
        except FileNotFoundError:
            return
        for line in lines:
            if process := ProcessIdentity.parse(line):
                yield process

    @property
    def attached(self) -> bool:
        """True once the VM has its disk."""
        return (self.folder / "attached").exists()

    @property
    def parked(self) -> bool:
        """True until a disk begins to be attached."""
        return not (self.folder / "attaching").exists()

    @contextmanager
    def attaching(self) -> Iterator[None]:
        """Note the beginning of an attach, and its end unless the block raises.

        Raises VmError the second time, and VmLost if there is no such VM.
        """
        try:
            (self.folder / "attaching").touch(exist_ok=False)
        except FileExistsError as error:
            message = f"VM {self.id} has a disk already"
            raise VmError(message) from error
        except FileNotFoundError as error:
            raise self._missing() from error
        yield
        (self.folder / "attached").touch()

    @property
    def _ended(self) -> Path:
        """A file that exists once the VM is being ended for a snapshot."""
        return self.folder / "ended"

    def listen(self, name: str, kind: socket.SocketKind) -> socket.socket:
        """Make a socket on which the VM will accept connections: ``ssh`` or ``control``."""
        listener = self.bind(name, kind)
        listener.listen(_BACKLOG)
        return listener

    def bind(self, name: str, kind: socket.SocketKind) -> socket.socket:
        """Make a socket that has a name in the VM's folder."""
        bound = socket.socket(socket.AF_UNIX, kind)
        with self._address(name) as address:
            bound.bind(address)
        return bound

    def connect(self, seconds: float, name: str = "ssh", kind: int = socket.SOCK_STREAM) -> socket.socket:
        """Open a connection to a socket of the VM. Raises OSError."""
        opened = socket.socket(socket.AF_UNIX, kind)
        opened.settimeout(seconds)
        try:
            with self._address(name) as address:
                opened.connect(address)
        except OSError:
            opened.close()
            raise
        return opened

    def end_guest(self, seconds: float) -> None:
        """Kill all processes of the VM that could write to its disk; the others end soon by themselves.

        The network takes tens of milliseconds to end, for which a snapshot need not wait. Raises VmError if a process
        outlives ``seconds``.
        """
        with suppress(FileNotFoundError):  # there is no such VM
            self._ended.touch()
        with suppress(VmLost):
            init = ProcessIdentity.of_first_below(self.monitor())
            if init is not None and init.kill(seconds):
                return
        self.end(seconds)

    def end(self, seconds: float) -> None:
        """Kill all processes of the VM and wait for their end, and for that of its making.

        A VM that is not made yet has no lock, and will not be made any more. Raises VmError if one outlives
        ``seconds``.
        """
        deadline = time.monotonic() + seconds
        try:
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            if error.errno in _NO_LOCK:
                return
            raise
        try:
            while (running := [process for process in self.processes() if process.alive]) or not _try_lock(descriptor):
                left = deadline - time.monotonic()
                if left < 0:
                    message = f"the processes of VM {self.id} cannot be killed: their ids are in {self._lock}"
                    raise VmError(message)
                for process in running:
                    process.kill(left)
                if not running:
                    time.sleep(_PAUSE_SECONDS)
        finally:
            os.close(descriptor)

    @property
    def _lock(self) -> Path:
        return self.folder / "lock"

    def _missing(self) -> VmLost:
        return VmLost(f"VM {self.id} does not exist")

    @contextmanager
    def _address(self, name: str) -> Iterator[str]:
        """Yield a short path of a socket, however long that of the folder: the kernel takes 107 bytes."""
        descriptor = os.open(self.folder, os.O_PATH)
        try:
            yield f"/proc/self/fd/{descriptor}/{name}"
        finally:
            os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


_STATE, _STARTED = 0, 19


@immutable
class ProcessIdentity:
    """A process of this host; ``started`` is in clock ticks since boot, as in ``/proc/PID/stat``."""

    pid: int
    started: int

    @classmethod
    def parse(cls, line: str) -> ProcessIdentity | None:
        """Parse ``PID STARTED``; return None for an incomplete line."""
        fields = line.split(" ")
        return cls(int(fields[0]), int(fields[1])) if len(fields) == 2 and line.endswith("\n") else None  # noqa: PLR2004 - its words

    @classmethod
    def of_first_below(cls, pid: int) -> ProcessIdentity | None:
        """Return the child of a process that is PID 1 of a namespace; None if none can be seen."""
        with suppress(OSError):  # it has ended, or the kernel does not list children
            for child in Path(f"/proc/{pid}/task/{pid}/children").read_bytes().split():
                status = Path(f"/proc/{int(child)}/status").read_bytes()
                ids = next(line.split()[1:] for line in status.splitlines() if line.startswith(b"NSpid:"))
                if len(ids) > 1 and ids[-1] == b"1":
                    stat = Path(f"/proc/{int(child)}/stat").read_bytes()
                    return cls(int(child), int(stat.rpartition(b")")[2].split()[_STARTED]))
        return None

    @property
    def alive(self) -> bool:
        """True if this very process runs; a zombie does not."""
        try:
            with open(f"/proc/{self.pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 - five times for each VM
                stat = file.read()
        except OSError:
            return False
        fields = stat.rpartition(b")")[2].split()
        return int(fields[_STARTED]) == self.started and fields[_STATE] not in (b"Z", b"X")

    def kill(self, seconds: float) -> bool:
        """Kill this process, never another one, and wait for its end; False if it outlives ``seconds``."""
        with self._pidfd() as descriptor:
            if descriptor is None:
                return True
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            return bool(poll.poll(seconds * 1000))

    @contextmanager
    def _pidfd(self) -> Iterator[int | None]:
        """Yield a descriptor of this very process, or None if it is gone."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            yield None
            return
        with closing(os.fdopen(descriptor, "rb", buffering=0)):
            yield descriptor if self.alive else None


@immutable
class KeyPair:
    """A pair on P-256: ``private`` in OpenSSH PEM form, ``public`` as ``"ecdsa-sha2-nistp256 AAAA..."``.

    OpenSSH has ed25519 in portable C: to sign and check by it takes sshd 2 ms more of CPU for each VM.
    """

    private: str
    public: str

    @classmethod
    def make(cls) -> KeyPair:
        """Make a new pair."""
        # A service that starts makes none before it answers, and these imports take a thirtieth of its start.
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - see above
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - see above

        key = ec.generate_private_key(ec.SECP256R1())
        encoding = serialization.Encoding
        private = key.private_bytes(encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
        public = key.public_key().public_bytes(encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        return cls(private.decode(), public.decode())
