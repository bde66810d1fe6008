"""PID 1 of a machine: it prepares the outer layer, attaches the job's disk and serves SSH.

The initramfs (``actors/vms/qemu/initramfs.py``) starts it with the base image's tree as its root, read-only. It says on
the console when the machine is ready, or why it is not. Its end is a panic of the kernel, and so the end of the VM.
"""

from __future__ import annotations

import _socket
import array
import fcntl
import marshal
import os
import resource
import struct

from .. import init, outer
from ..job.root import HOSTNAME
from ..kernel import (
    CLONE_NEWNET,
    MS_BIND,
    MS_PRIVATE,
    MS_REC,
    copy_of_mount,
    join_descriptor,
    mount,
    set_hostname,
    unshare,
)
from ..network import raise_loopback
from .words import FAILED, READY, SSH_PORT

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import Any, NoReturn

_JOB_DISK, _SEED = "/dev/vdb", "/dev/vdc"
_DISK = f"{outer.FOLDER}/disk"
_CONTROL = f"{outer.FOLDER}/control"
_BACKLOG = 128
_ANSWER_BYTES = 4096
_BLOCK_BYTES = 4096
_BLKGETSIZE64 = 0x80081272
_EXT4_IOC_RESIZE_FS = 0x40086610


def main() -> NoReturn:
    """Serve until the job's supervisor ends."""
    try:
        _serve()
    except Exception as error:  # noqa: BLE001 - the boundary of this process
        _say(FAILED, str(error))
    finally:
        os._exit(1)


def _serve() -> NoReturn:
    with open(_SEED, "rb") as file:
        spec: dict[str, Any] = marshal.load(file)  # noqa: S302 - from the service itself
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    set_hostname(HOSTNAME)
    os.umask(0o077)
    outer.prepare(spec["host_key"], spec["authorized_key"])
    _mount_disk()
    os.umask(0o022)
    resource.setrlimit(resource.RLIMIT_NPROC, (spec["processes"], spec["processes"]))
    ssh = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    ssh.bind(("0.0.0.0", SSH_PORT))  # noqa: S104 - of the machine, which only its monitor reaches
    ssh.listen(_BACKLOG)
    control = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    control.bind(_CONTROL)
    control.listen(1)
    offline = _offline_network()
    if os.fork() == 0:
        _attach(spec["job"])
    init.serve(ssh.fileno(), control.fileno(), offline)


def _mount_disk() -> None:
    """Mount the job's disk, grown to the size of its device, with a new folder for the command's output."""
    os.mkdir(_DISK)
    mount(_JOB_DISK, _DISK, "ext4")
    device = os.open(_JOB_DISK, os.O_RDONLY)
    (size,) = struct.unpack("Q", fcntl.ioctl(device, _BLKGETSIZE64, bytes(8)))
    os.close(device)
    found = os.statvfs(_DISK)
    if found.f_blocks * found.f_frsize < size - size // 8:
        folder = os.open(_DISK, os.O_RDONLY)
        fcntl.ioctl(folder, _EXT4_IOC_RESIZE_FS, struct.pack("Q", size // _BLOCK_BYTES))
        os.close(folder)
    command = f"{_DISK}/command"
    for name in os.listdir(command):
        os.unlink(f"{command}/{name}")
    mount(command, outer.COMMAND_FOLDER, flags=MS_BIND)


def _offline_network() -> int:
    """Return a descriptor of a network namespace with nothing but a loopback."""
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    unshare(CLONE_NEWNET)
    raise_loopback()
    offline = os.open("/proc/self/ns/net", os.O_RDONLY)
    join_descriptor(own, CLONE_NEWNET)
    os.close(own)
    return offline


def _attach(job: dict[str, Any]) -> NoReturn:
    """Hand the job's disk to the supervisor, which `init.serve` starts, and report on the console."""
    try:
        control = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        control.connect(_CONTROL)
        descriptors = array.array("i", [copy_of_mount(f"{_DISK}/root"), os.open("/dev/console", os.O_WRONLY)])
        rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors.tobytes())
        control.sendmsg([marshal.dumps(job)], [rights])
        word, _, why = control.recv(_ANSWER_BYTES).decode(errors="replace").strip().partition(" ")
        _say(READY if word == "ready" else FAILED, why)
    except OSError as error:
        _say(FAILED, str(error))
    finally:
        os._exit(0)


def _say(word: bytes, why: str = "") -> None:
    with open("/dev/console", "wb", buffering=0) as console:
        console.write(b"\n" + word + b" " + why.replace("\n", " ").encode() + b"\n")
