"""A machine: its processes started, its job's parts plugged in while it runs, and its end.

Commands to a running machine go by QEMU's protocol (https://wiki.qemu.org/Documentation/QMP). Its seed is a small disk
from which its PID 1 learns who may enter, and later of its job.
"""

from __future__ import annotations

import json
import marshal
import os
import resource
import select
import signal
import socket
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Self

from actors.vms.host.network import RESOLVER
from actors.vms.launcher.words import JOB_DISK, SEED_PART_BYTES, SERVICE_DISK
from actors.vms.provider import VmError, VmLost
from actors.vms.qemu.program import DISK_PORT, MOST_CPUS, MOST_MEMORY_GB, PARKED, SERVICES_PORT, file_node
from storage import error_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

    from actors.vms.host.vm_folder import KeyPair, VmFolder
    from actors.vms.host.zygote import Zygote
    from actors.vms.provider import VmSpec
    from storage import Shape


CONSOLE = "console"
"""The file of a VM's folder that has what the guest printed."""

_COMMANDS = "commands"
"""The socket of a VM's folder on which QEMU takes commands."""

_READY = b"ready"
_SHOWN_CHARS = 4000
"""The end of a console that is shown: a panic of the kernel, with what led to it."""


def park(vm: VmFolder, spec: dict[str, Any], lock: int, zygote: Zygote, seconds: float) -> None:
    """Start the machine that ``spec`` describes; return when its sshd is served.

    Its processes hold the ``lock``, too. Raises VmError with the end of its console; the caller then ends what was
    started.
    """
    read, write = os.pipe()
    with os.fdopen(read, "rb", buffering=0) as report, ExitStack() as opened:
        opened.callback(os.close, write)
        log = opened.enter_context((vm.folder / "log").open("ab"))
        kinds = {"ssh": socket.SOCK_STREAM, "control": socket.SOCK_SEQPACKET, _COMMANDS: socket.SOCK_STREAM}
        listeners = [opened.enter_context(vm.listen(name, kind)) for name, kind in kinds.items()]
        zygote.start("machine", spec, [write, log.fileno(), lock, *(each.fileno() for each in listeners)])
        opened.close()  # so that the report ends with the machine's processes
        _await_ready(vm, report.fileno(), seconds)


def attach(vm: VmFolder, job: dict[str, Any], plug: Callable[[Qmp], None], seconds: float) -> None:
    """Tell the monitor of the ``job``, plug in its parts, and return when the guest has them.

    Raises VmError.
    """
    with vm.connect(seconds, "control", socket.SOCK_SEQPACKET) as control:
        control.send(marshal.dumps(job))
        with commands(vm, seconds) as qmp:
            plug(qmp)
        _await_ready(vm, control.fileno(), seconds)


def commands(vm: VmFolder, seconds: float) -> Qmp:
    """Return a connection to the VM's QEMU, for commands that take up to ``seconds`` together.

    Raises VmError.
    """
    try:
        return Qmp(vm.connect(seconds, _COMMANDS), seconds)
    except OSError as error:
        message = f"QEMU of VM {vm.id} does not answer: {error_reason(error)}"
        raise VmError(message) from error


def let_end(vm: VmFolder, seconds: float) -> None:
    """Let QEMU complete its files and end. Raises VmError if it does not."""
    with suppress(VmLost, ProcessLookupError):
        monitor = os.pidfd_open(vm.monitor())
        try:
            signal.pidfd_send_signal(monitor, signal.SIGTERM)
            poll = select.poll()
            poll.register(monitor, select.POLLIN)
            if not poll.poll(seconds * 1000):
                message = f"QEMU of VM {vm.id} does not end: see {vm.folder / 'log'}"
                raise VmError(message)
        finally:
            os.close(monitor)


def console_end(vm: VmFolder) -> str:
    """Return the end of what the guest has printed on its console."""
    for name in (f"{CONSOLE}.later", CONSOLE):
        with suppress(FileNotFoundError):
            if printed := (vm.folder / name).read_text(encoding="utf-8", errors="replace").strip():
                return printed[-_SHOWN_CHARS:]
    return ""


def _await_ready(vm: VmFolder, report: int, seconds: float) -> None:
    """Wait for the word ``ready`` on a descriptor. Raises VmError if another comes, or none."""
    poll = select.poll()
    poll.register(report, select.POLLIN)
    if not poll.poll(seconds * 1000):
        message = f"VM {vm.id} did not start in time: {console_end(vm) or vm.log() or 'its console is empty'}"
        raise VmError(message)
    word, _, why = os.read(report, select.PIPE_BUF).strip().partition(b" ")
    if word != _READY:
        reason = "\n".join(filter(None, (why.decode(errors="replace"), vm.log(), console_end(vm))))
        message = f"VM {vm.id} could not be created: {reason or 'its launcher ended without a message'}"
        raise VmError(message)


_LINE_BYTES = 1 << 20


class Qmp:
    """A connection to QEMU, which serves one at a time.

    It is not trusted, as its guest may have taken it over.
    """

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        """Use a new connection, and close it at the end of a `with`. All is to be done within ``seconds``."""
        self._connection = connection
        self._deadline = time.monotonic() + seconds
        self._rest = b""

    def __enter__(self) -> Self:
        """Await QEMU's greeting. Raises VmError."""
        with ExitStack() as undo:
            undo.callback(self._connection.close)
            self._receive("QMP")
            self.execute("qmp_capabilities")
            undo.pop_all()
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        """Hang up."""
        self._connection.close()

    def execute(self, command: str, arguments: dict[str, Any] | None = None, *, descriptor: int | None = None) -> Any:  # noqa: ANN401 - each command has a type of its own
        """Execute a command, which may take a descriptor; return its result. Raises VmError."""
        request = json.dumps({"execute": command, "arguments": arguments or {}}).encode() + b"\n"
        try:
            if descriptor is None:
                self._connection.sendall(request)
            else:
                socket.send_fds(self._connection, [request], [descriptor])
        except OSError as error:
            message = f"QEMU does not answer: {error_reason(error)}"
            raise VmError(message) from error
        return self._receive("return", command)

    def await_event(self, name: str) -> None:
        """Wait until QEMU tells of an event. Raises VmError."""
        while self._receive("event", name) != name:
            pass

    def _receive(self, wanted: str, command: str = "the greeting") -> Any:  # noqa: ANN401 - see above
        """Return what the next message with a ``wanted`` key has there."""
        while True:
            try:
                answer = json.loads(self._line())
                if wanted in answer:
                    return answer[wanted]
                if "error" in answer:
                    message = f"QEMU refuses {command}: {answer['error']['desc']}"
                    raise VmError(message)
            except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
                message = f"QEMU does not answer {command}: {error_reason(error)}"
                raise VmError(message) from error

    def _line(self) -> bytes:
        while b"\n" not in self._rest:
            if len(self._rest) > _LINE_BYTES:
                message = "its answer is too long"
                raise ValueError(message)
            if (left := self._deadline - time.monotonic()) <= 0:
                raise TimeoutError
            self._connection.settimeout(left)
            if not (received := self._connection.recv(1 << 16)):
                raise ConnectionResetError
            self._rest += received
        line, _, self._rest = self._rest.partition(b"\n")
        return line


_FIRST_SET = 1000
"""The first of QEMU's sets of descriptors that have the layers of the job's disk."""

_BELOW = f"layer{_FIRST_SET + 1}"
"""The node of the newest layer below the job's own."""

_FIRST_OF_SERVICES = 2000
"""The first of the sets that have the disks of services, each with its image's."""

_FIRST_MODULE_GB = 8


def plug_shape(qmp: Qmp, shape: Shape) -> None:
    """Give a parked machine its memory and processors.

    Raises VmError, also if no machine can have this shape.
    """
    _check(shape)
    for number, gigabytes in enumerate(memory_modules(shape.memory_gb)):
        backend = {"qom-type": "memory-backend-ram", "id": f"ram{number}", "size": gigabytes << 30}
        qmp.execute("object-add", backend)
        qmp.execute("device_add", {"driver": "pc-dimm", "id": f"module{number}", "memdev": f"ram{number}"})
    free = [slot for slot in qmp.execute("query-hotpluggable-cpus") if "qom-path" not in slot]
    for slot in sorted(free, key=lambda slot: slot["props"]["core-id"])[: shape.cpu - PARKED.cpu]:
        qmp.execute("device_add", {"driver": slot["type"], **slot["props"]})


def plug_disk(qmp: Qmp, layers: Sequence[Path]) -> None:
    """Give a parked machine its disk: its own layer first, the image last.

    Raises VmError.
    """
    for number, layer in enumerate(layers, _FIRST_SET):
        with layer.open("r+b" if number == _FIRST_SET else "rb") as file:
            qmp.execute("add-fd", {"fdset-id": number}, descriptor=file.fileno())
    qmp.execute("blockdev-add", job_drive(len(layers)))
    device = {"driver": "virtio-blk-pci", "id": "disk", "drive": "job", "serial": JOB_DISK, "bus": DISK_PORT}
    qmp.execute("device_add", device)


def plug_services(qmp: Qmp, disks: Sequence[Sequence[Path]]) -> None:
    """Give a parked machine the disks of services, each with its own layer and its image.

    They are the functions of one slot, whose first, which comes last, tells the guest of all. Raises VmError.
    """
    for number, layers in reversed(list(enumerate(disks))):
        first = _FIRST_OF_SERVICES + len(layers) * number
        for each, layer in enumerate(layers, first):
            with layer.open("r+b" if each == first else "rb") as file:
                qmp.execute("add-fd", {"fdset-id": each}, descriptor=file.fileno())
        own, image = (file_node(each, writable=each == first) for each in range(first, first + len(layers)))
        name = f"{SERVICE_DISK}{number}"
        below = {"node-name": f"{name}-image", "driver": "raw", "read-only": True, "file": image}
        qmp.execute("blockdev-add", {"node-name": name, "driver": "qcow2", "file": own, "backing": below})
        place = {"bus": SERVICES_PORT, "addr": f"0.{number:x}", "multifunction": True}
        qmp.execute("device_add", {"driver": "virtio-blk-pci", "id": name, "drive": name, "serial": name, **place})


def flatten(qmp: Qmp) -> None:
    """Begin to copy into the job's own layer all that lies between it and the image.

    Raises VmError.
    """
    qmp.execute("block-stream", {"job-id": "flatten", "device": "job", "base-node": "image"})


def await_flat(qmp: Qmp) -> None:
    """Wait until the job's own layer lies on the image. Raises VmError if it never will."""
    while qmp.execute("query-block-jobs"):
        qmp.await_event("BLOCK_JOB_COMPLETED")
    if any(node["node-name"] == _BELOW for node in qmp.execute("query-named-block-nodes", {"flat": True})):
        message = "the layers of the disk could not be merged"
        raise VmError(message)


def memory_modules(memory_gb: int) -> Iterator[int]:
    """Yield the sizes of the modules that bring a parked machine to this memory.

    A guest notes each page of a module in the memory that it has by then, so the first one is small.
    """
    missing = memory_gb - PARKED.memory_gb
    first = min(missing, _FIRST_MODULE_GB)
    yield from filter(None, (first, missing - first))


def job_drive(layers: int, number: int = _FIRST_SET) -> dict[str, Any]:
    """Return the drive of a disk of so many layers.

    The first alone is written to, and the last one is raw.
    """
    writable = number == _FIRST_SET
    file = file_node(number, writable=writable)
    if layers == 1:
        return {"node-name": "image", "driver": "raw", "read-only": not writable, "file": file}
    name, below = "job" if writable else f"layer{number}", job_drive(layers - 1, number + 1)
    return {"node-name": name, "driver": "qcow2", "read-only": not writable, "file": file, "backing": below}


def _check(shape: Shape) -> None:
    if shape.cpu > MOST_CPUS or shape.memory_gb > MOST_MEMORY_GB:
        message = (
            f"no machine can have {shape.cpu} CPUs and {shape.memory_gb} GB of memory: "
            f"ask for at most {MOST_CPUS} and {MOST_MEMORY_GB}"
        )
        raise VmError(message)


_GB = 1 << 30
_OPEN_FILES = 65_536
_JOB_LIMITS = ((resource.RLIMIT_NOFILE, _OPEN_FILES, _OPEN_FILES),)


class Seed:
    """The file of a seed. Its first part is read at boot, its second one when the job's disk has come."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "seed"

    def make(self, host: KeyPair, caller: KeyPair, processes: int) -> None:
        """Write the machine's own key, the key that may enter, and the most processes."""
        self.path.touch(mode=0o600, exist_ok=False)
        entry = {"host_key": host.private, "authorized_key": caller.public, "processes": processes}
        self.path.write_bytes(marshal.dumps(entry).ljust(2 * SEED_PART_BYTES, b"\0"))

    def add_job(self, spec: VmSpec, now: float) -> None:
        """Write what a job brings, and the time."""
        job = {
            "cpu": spec.shape.cpu,
            "limits": list(_JOB_LIMITS),
            "memory_bytes": spec.shape.memory_gb * _GB,
            "network": spec.network,
            "resolver": RESOLVER if spec.network else None,
            "containers": spec.containers,
            "services": list(spec.services),
            "time": now,
        }
        with self.path.open("r+b") as file:
            file.seek(SEED_PART_BYTES)
            file.write(marshal.dumps(job))
