"""PID 1 of a machine: it prepares the outer layer and serves SSH; a child waits for the disk.

The initramfs (``actors/vms/qemu/initramfs.py``) starts it with the base image's tree as its root, read-only. On the
console it says when SSH is served and when the job's disk is attached, or why not. Its end is a panic of the kernel,
and so the end of the VM.
"""

from __future__ import annotations

import _socket
import array
import marshal
import os
import resource
import time

from .. import init, outer
from ..job.root import HOSTNAME
from ..kernel import (
    CLONE_NEWNET,
    MS_PRIVATE,
    MS_REC,
    join_descriptor,
    mount,
    set_hostname,
    unshare,
)
from ..network import raise_loopback
from ..shares import limit_of_job
from . import job_group, job_parts
from .words import ATTACHED, FAILED, READY, SSH_PORT

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import Any, NoReturn

_SEED = "/dev/vdb"
_CONTROL = f"{outer.FOLDER}/control"
_BACKLOG = 128
_ANSWER_BYTES = 4096


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
    os.umask(0o022)
    resource.setrlimit(resource.RLIMIT_NPROC, (spec["processes"], spec["processes"]))
    ssh = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    ssh.bind(("0.0.0.0", SSH_PORT))  # noqa: S104 - of the machine, which only its monitor reaches
    ssh.listen(_BACKLOG)
    control = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    control.bind(_CONTROL)
    control.listen(1)
    offline = _offline_network()
    parts = job_parts.Arrivals()
    if os.fork() == 0:
        _attach(parts)
    _say(READY)
    init.serve(ssh.fileno(), control.fileno(), offline)


def _offline_network() -> int:
    """Return a descriptor of a network namespace with nothing but a loopback."""
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    unshare(CLONE_NEWNET)
    raise_loopback()
    offline = os.open("/proc/self/ns/net", os.O_RDONLY)
    join_descriptor(own, CLONE_NEWNET)
    os.close(own)
    return offline


def _attach(parts: job_parts.Arrivals) -> NoReturn:
    """Wait for the job's parts, hand its disk to the supervisor, which `init.serve` starts, and report."""
    try:
        parts.await_disk()
        job = job_parts.job_of(_SEED)
        _catch_up(job["time"])
        parts.await_shape(job["cpu"], job["memory_bytes"])
        group = job_group.make(limit_of_job(), job_parts.present_memory_bytes())
        disk, output = job_parts.mounted_disk()
        control = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        control.connect(_CONTROL)
        descriptors = array.array("i", [disk, output, os.open("/dev/console", os.O_WRONLY), group])
        rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors.tobytes())
        control.sendmsg([marshal.dumps(job)], [rights])
        word, _, why = control.recv(_ANSWER_BYTES).decode(errors="replace").strip().partition(" ")
        _say(ATTACHED if word == "ready" else FAILED, why)
    except Exception as error:  # noqa: BLE001 - the boundary of this process
        _say(FAILED, str(error))
    finally:
        os._exit(0)


def _catch_up(now: float) -> None:
    """Set the clock if it is behind.

    It was read in whole seconds, and stands while the machine is not run at all.
    """
    if time.time() < now:
        time.clock_settime(time.CLOCK_REALTIME, now)


def _say(word: bytes, why: str = "") -> None:
    with open("/dev/console", "wb", buffering=0) as console:
        console.write(b"\n" + word + b" " + why.replace("\n", " ").encode() + b"\n")
