"""Programs that the service runs in an instance beside its init, one a function.

They have the service on their standard input and output, and no process of the VM sees them.
"""

from __future__ import annotations

import _socket
import array
import errno
import fcntl
import marshal
import os
import resource
import sys
import time

from .kernel import CLONE_NEWNS, MS_NODEV, MS_PRIVATE, copy_of_mount, mount, unshare
from .shares import NETWORK_PROGRAM_ID
from .trees import make_directory
from .words import CONTROL, DISK, DOOR, LOG, MESSAGE_BYTES, SSH

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn


_PAUSE_SECONDS = 0.01
_INIT_SECONDS = 30.0
_PLUG_SECONDS = 30.0
_F_SETPIPE_SZ = 1031
_PIPE_BYTES = 1 << 20


def main(name: str) -> NoReturn:
    """Run the program of this name; what goes wrong is said as ``failed WHY``."""
    programs: dict[str, Callable[[], None]] = {"boot": boot, "attach": attach, "connect": connect, "end": end}
    try:
        programs[name]()
    except Exception as error:  # noqa: BLE001 - the boundary of this process
        os.write(1, f"failed {error}\n".encode())
        os._exit(1)
    finally:
        os._exit(0)


def boot() -> None:
    """Hand the spec on the standard input to init, and its answer to the service."""
    door = _connected(DOOR, _socket.SOCK_SEQPACKET)
    door.send(b"boot " + sys.stdin.buffer.read())
    os.write(1, door.recv(MESSAGE_BYTES) or b"failed the instance has ended")


def end() -> None:
    """Let init end, and with it the instance."""
    _connected(DOOR, _socket.SOCK_SEQPACKET).send(b"end ")


def attach() -> None:
    """Hand the disks to the VM with the job on the standard input.

    In a container, the engine has mounted them; in a machine, each comes as a share.
    """
    job = marshal.load(sys.stdin.buffer)  # noqa: S302 - from the service itself
    job["limits"] = list(_possible(job["limits"]))
    shares = [job.pop("share"), *job.pop("service_shares")]
    places = [DISK, *(f"{DISK}{number}" for number in range(len(job["services"])))]
    for share, place in zip(shares, places, strict=True):
        if share:
            _mount_share(share, place)
    outputs = [_output_file(place) for place in places]
    log = os.open(LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    unshare(CLONE_NEWNS)
    for place in places:
        mount("none", place, flags=MS_PRIVATE)  # no root may be a mount that the engine shares with the instance
    roots = [copy_of_mount(f"{place}/root") for place in places]
    services = [each for root_and_output in zip(roots[1:], outputs[1:], strict=True) for each in root_and_output]
    control = _connected(CONTROL, _socket.SOCK_SEQPACKET)
    _hand(control, marshal.dumps(job), roots[0], outputs[0], log, *services)
    os.write(1, control.recv(MESSAGE_BYTES) or b"failed the VM has ended")


def _output_file(disk: str) -> int:
    """Return a descriptor of a new file on a disk, beside its root."""
    for part, mode in (("root", 0o755), ("command", 0o700)):
        make_directory(f"{disk}/{part}", mode)
    for name in os.listdir(f"{disk}/command"):
        os.unlink(f"{disk}/command/{name}")
    return os.open(f"{disk}/command/output", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)


def _mount_share(name: str, place: str) -> None:
    """Mount a file system that the engine plugs in, as soon as the kernel has it. Raises OSError.

    The engine's agent does the same, and may be quicker.
    """
    make_directory(place, 0o700)
    end = time.monotonic() + _PLUG_SECONDS
    while True:
        try:
            mount(name, place, "virtiofs", MS_NODEV)
        except OSError as error:
            if error.errno == errno.EBUSY:
                return
            if time.monotonic() > end:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return


def connect() -> None:
    """Let the VM start an sshd on the standard input and output themselves, and wait for its end.

    The engine ends the streams with this program, and sshd with the streams.
    """
    for number in (0, 1):
        try:
            fcntl.fcntl(number, _F_SETPIPE_SZ, _PIPE_BYTES)
        except OSError:  # it is no pipe, or there are too many large ones
            continue
    own, handed = _socket.socketpair()
    _hand(_connected(SSH, _socket.SOCK_DGRAM), b"1", 0, 1, handed.fileno())
    handed.close()
    own.recv(1)


def _hand(taker: _socket.socket, message: bytes, *descriptors: int) -> None:
    """Send a message with descriptors."""
    os.setresuid(NETWORK_PROGRAM_ID, 0, 0)  # what is on its way counts for an id that no VM has
    rights = array.array("i", descriptors).tobytes()
    taker.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])


def _connected(path: str, kind: int) -> _socket.socket:
    """Connect to init, which may yet have to begin. Raises OSError."""
    end = time.monotonic() + _INIT_SECONDS
    while True:
        opened = _socket.socket(_socket.AF_UNIX, kind)
        try:
            opened.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            opened.close()
            if time.monotonic() > end:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return opened


def _possible(limits: list[tuple[int, int, int]]) -> Any:  # noqa: ANN401 - an iterator; see TYPE_CHECKING
    """Yield limits of resources, none above what the engine gives the instance."""
    for kind, soft, hard in limits:
        most = resource.getrlimit(kind)[1] % (1 << 63)
        yield kind, min(soft, most), min(hard, most)
