"""The monitor of a machine: it runs QEMU, keeps the console and opens connections to the sshd.

It is PID 1 of a PID namespace that holds QEMU and the program for its network, so they are killed with it; if one of
the two ends, it ends too. QEMU is an ordinary user with a root of its own, and has the disks as descriptors. It is in a
network namespace of its own, whose rules close the same addresses as those of a sandbox: what the guest sends leaves
through QEMU's sockets. A connection to the guest's sshd is opened in that namespace and handed to the service, so no
port of the host is open.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal.py would cost 3 ms for its enums
import _socket
import array
import errno
import marshal
import os
import resource
import select

from .ids import become_root, own_id
from .kernel import (
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWUTS,
    MS_BIND,
    MS_NODEV,
    MS_NOSUID,
    MS_PRIVATE,
    MS_REC,
    bound_capabilities,
    child_ended,
    make_read_only,
    mount,
    pivot_root,
    restore_signals,
    set_dumpable,
    set_title,
    unmount,
    unshare,
)
from .network import NetworkProgram, publish_namespace, raise_loopback, set_rules
from .shares import NETWORK_PROGRAM_ID, bound_shares
from .trees import make_directory, mount_devices, mount_processes, write_file
from .words import ATTACHED, FAILED, FIRST_FILE, READY, SSH_PORT

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import Any, NoReturn


_FOLDER = "/tmp"  # noqa: S108 - a file system of its own, in this process's mount namespace
_CHECK_SECONDS = 5.0
_REQUEST_SECONDS = 5.0
_REQUEST_BYTES = 4096


def monitor_machine(spec: dict[str, Any], mapped: int, report: int, log: int) -> NoReturn:
    """Make the machine and run until it ends. Writes ``ready`` or ``failed WHY`` to ``report``."""
    try:
        _Monitor(spec, mapped, report, log).serve()
    except Exception as error:  # noqa: BLE001 - the boundary of this process
        os.write(report, f"failed {error}\n".encode())
    finally:
        os._exit(1)


class _Monitor:
    def __init__(self, spec: dict[str, Any], mapped: int, report: int, log: int) -> None:
        mount("none", "/", flags=MS_REC | MS_PRIVATE)
        files = [os.open(path, os.O_RDONLY) for path in spec["files"]]
        self._console = Console(spec["console"])
        self._lock, self._report, self._awaited = spec["lock"], report, READY
        if os.read(mapped, 1) != b"1":
            os._exit(1)
        become_root()
        set_dumpable(dumpable=True)
        os.umask(0o022)
        mount("tmpfs", _FOLDER, "tmpfs", data="mode=755,size=1m")
        self._network = NetworkProgram(spec["network"], _FOLDER, log)
        bound_shares(spec["share_of_limits"], spec["share_of_objects"])
        unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)
        raise_loopback()
        set_rules(spec["network"]["rules"])
        publish_namespace(int(own_id()), _FOLDER)
        make_directory(f"{_FOLDER}/root", 0o755)
        files.append(spec["commands"])
        self._qemu, self._output = start_qemu(spec, files, log, f"{_FOLDER}/root")
        self._listener, self._control = (_socket.socket(fileno=spec[name]) for name in ("listener", "control"))
        for each in files:
            os.close(each)
        _signal.signal(_signal.SIGTERM, self._terminate)
        set_title(f"ci-daemon VM {spec['id']}".encode())

    def serve(self) -> None:
        """Keep the console and serve the service, until a child ends or the VM's folder is removed."""
        turns = {
            self._output: self._keep_output,
            self._listener.fileno(): self._connect,
            self._control.fileno(): self._attach,
        }
        poll = select.poll()
        for each in (*turns, os.pidfd_open(self._qemu)):
            poll.register(each, select.POLLIN)
        while os.fstat(self._lock).st_nlink:
            ready = [number for number, _ in poll.poll(_CHECK_SECONDS * 1000)]
            for each in filter(turns.__contains__, ready):
                turns[each]()
            if set(ready) - turns.keys() or child_ended(0):
                break
        self._keep_rest()
        self._tell(b"failed QEMU ended: " + self._console.last_line)

    def _keep_output(self) -> None:
        self._console.keep(os.read(self._output, CHUNK_BYTES))
        if self._console.has(self._awaited):
            self._tell(b"ready")
        elif self._console.has(FAILED):
            self._tell(b"failed " + self._console.last_line)

    def _keep_rest(self) -> None:
        """Keep what QEMU printed before it ended, which tells why."""
        os.set_blocking(self._output, False)
        try:
            while rest := os.read(self._output, CHUNK_BYTES):
                self._console.keep(rest)
        except BlockingIOError:  # it still runs: the VM is being removed
            return

    def _tell(self, what: bytes) -> None:
        """Report how the start or the attach went, once."""
        if self._report < 0:
            return
        try:
            os.write(self._report, what.replace(b"\n", b" ") + b"\n")
        except BrokenPipeError:  # the service has died; its successor looks at the VM itself
            pass
        finally:
            os.close(self._report)
            self._report = -1

    def _attach(self) -> None:
        """Connect the network, if the job is to have it, and bound what QEMU writes.

        The answer follows the guest's.
        """
        accepted = _socket.socket(fileno=self._control._accept()[0])  # type: ignore[attr-defined]  # noqa: SLF001 - see init.py
        try:
            accepted.settimeout(_REQUEST_SECONDS)
            job = marshal.loads(accepted.recv(_REQUEST_BYTES))  # noqa: S302 - from the service itself
        except (OSError, EOFError):  # the service has died
            accepted.close()
            return
        accepted.settimeout(None)
        self._report, self._awaited = accepted.detach(), ATTACHED
        most = job["largest_file"]
        try:
            resource.prlimit(self._qemu, resource.RLIMIT_FSIZE, (most, most))
            if job["network"]:
                self._network.go()
                self._network.wait()
        except OSError as error:
            self._tell(f"failed {error}".encode())

    def _connect(self) -> None:
        """Begin a connection to the guest's sshd, and send it to the service, which waits for QEMU to take it.

        QEMU takes none while it is busy, and the kernel keeps two for it; nothing else of the machine waits for that.
        """
        accepted = _socket.socket(fileno=self._listener._accept()[0])  # type: ignore[attr-defined]  # noqa: SLF001 - see init.py
        connection = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        try:
            connection.setblocking(False)  # noqa: FBT003 - the function's own argument
            if (begun := connection.connect_ex(("127.0.0.1", SSH_PORT))) not in {0, errno.EINPROGRESS}:
                raise OSError(begun, os.strerror(begun))
            _hand_over(connection, accepted)
        except OSError as error:  # QEMU has ended, or the service has hung up
            _explain(error, accepted)
        finally:
            connection.close()
            accepted.close()

    def _terminate(self, *_: object) -> None:
        """Let QEMU write what it has of the disks, and end."""
        os.kill(self._qemu, _signal.SIGTERM)


def _hand_over(connection: _socket.socket, accepted: _socket.socket) -> None:
    """Send a connection, which counts on its way for an id that no VM has.

    Jobs may have used up what the ids of theirs may have in flight.
    """
    rights = array.array("i", [connection.fileno()]).tobytes()
    os.setresuid(NETWORK_PROGRAM_ID, 0, 0)
    try:
        accepted.sendmsg([b"1"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
    finally:
        os.setresuid(0, 0, 0)


def _explain(error: OSError, accepted: _socket.socket) -> None:
    try:
        accepted.send(str(error).encode())
    except OSError:
        return  # nobody is there to read it


CHUNK_BYTES = 1 << 16
_KEPT_BYTES = 1 << 18
_LOOKED_AT_BYTES = 1 << 12


class Console:
    """A file with the beginning of the console's output, and a second one with its end."""

    def __init__(self, path: str) -> None:
        """Make the files, while this process may enter their folder."""
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
        self._files = [os.open(name, flags, 0o600) for name in (path, f"{path}.later")]
        self._current, self._size = self._files[0], 0
        self._last = b""

    def keep(self, output: bytes) -> None:
        """Append to the first file until it is full, then to the second one, which starts anew when it is."""
        self._last = (self._last + output)[-_LOOKED_AT_BYTES:]
        if self._size + len(output) > _KEPT_BYTES:
            self._current = self._files[1]
            os.ftruncate(self._current, 0)
            self._size = 0
        os.write(self._current, output)
        self._size += len(output)

    def has(self, mark: bytes) -> bool:
        """Tell if a whole line with this mark was printed lately."""
        return any(line.startswith(mark) for line in self._last.replace(b"\r", b"").split(b"\n")[:-1])

    @property
    def last_line(self) -> bytes:
        """The last line that is not empty."""
        lines = [line for line in self._last.replace(b"\r", b"").split(b"\n") if line.strip()]
        return lines[-1].strip() if lines else b"its console is empty"


_ID = 65_534
"""The id that QEMU runs under: in a sandbox it is nobody's."""

_PROGRAMS = ("bin", "lib", "lib32", "lib64", "libx32", "sbin", "usr")
_LOADER = ("ld.so.cache",)
_OPEN_FILES = 4096
_OOM_SCORE = 1000


def start_qemu(spec: dict[str, Any], files: list[int], log: int, root: str) -> tuple[int, int]:
    """Start QEMU with these files; return its id, and the end of a pipe that has its standard output.

    ``root`` is an empty folder, in which its root is made.
    """
    output, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(output)
            _execute(spec, files, log, theirs, root)
        except OSError as error:
            os.write(log, f"{error}\n".encode())
        finally:
            os._exit(127)
    os.close(theirs)
    return pid, output


def _execute(spec: dict[str, Any], files: list[int], log: int, output: int, root: str) -> NoReturn:
    restore_signals()
    unshare(CLONE_NEWNS)
    with open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
        file.write(b"%d" % _OOM_SCORE)
    _enter_qemu_root(root, spec["devices"], spec["resolver"])
    null = os.open("/dev/null", os.O_RDWR)
    for number, descriptor in enumerate((null, output, log)):
        os.dup2(descriptor, number)
    above = FIRST_FILE + len(files)
    copies = [os.dup(each) for each in files]
    if copies and max(copies) >= FIRST_FILE:
        message = "this process has too many open files"
        raise OSError(message)
    for number, copy in enumerate(copies, FIRST_FILE):
        os.dup2(copy, number)
    os.closerange(3, FIRST_FILE)
    os.closerange(above, os.sysconf("SC_OPEN_MAX"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, _OPEN_FILES))
    resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
    # QEMU has no capability anyway, and its filter comes with no_new_privs, so nothing it executes could gain one. This
    # holds in the moment before that, too.
    bound_capabilities(())
    os.setgroups([])
    os.setresgid(_ID, _ID, _ID)
    os.setresuid(_ID, _ID, _ID)
    os.execve(spec["argv"][0], spec["argv"], {"PATH": "/usr/bin:/bin"})  # noqa: S606 - fixed by the service


def _enter_qemu_root(root: str, devices: list[str], resolver: str) -> None:
    """Make a root of the host's programs, read-only, without any other file of the host."""
    mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m")
    for folder in ("proc", "dev", "etc", "tmp"):
        make_directory(f"{root}/{folder}", 0o755)
    for name in _PROGRAMS:
        if os.path.islink(f"/{name}"):
            os.symlink(os.readlink(f"/{name}"), f"{root}/{name}")
        elif os.path.isdir(f"/{name}"):
            os.mkdir(f"{root}/{name}")
            mount(f"/{name}", f"{root}/{name}", flags=MS_BIND | MS_REC)
            make_read_only(f"{root}/{name}")
    mount_processes(f"{root}/proc")
    mount_devices("/dev", f"{root}/dev")
    for device in devices:
        os.close(os.open(f"{root}{device}", os.O_CREAT | os.O_WRONLY, 0o666))
        mount(device, f"{root}{device}", flags=MS_BIND)
    write_file(f"{root}/etc/resolv.conf", f"nameserver {resolver}\n")
    for name in _LOADER:
        if os.path.isfile(f"/etc/{name}"):
            with open(f"/etc/{name}", "rb") as source, open(f"{root}/etc/{name}", "wb") as copy:
                copy.write(source.read())
    os.chdir(root)
    pivot_root(".", ".")
    unmount(".")
    os.chdir("/")
