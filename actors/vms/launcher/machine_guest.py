"""PID 1 of a machine: it prepares the outer layer and serves SSH; a child waits for the disk.

The initramfs (``actors/vms/host/boot.py``) starts it with the base image's tree as its root, read-only. On the console
it says when SSH is served and when the job's disk is attached, or why not. Its end is a panic of the kernel, and so the
end of the VM. The parts that a job brings arrive one by one while the machine runs.

The job has a control group, so that what serves the job ranks above it. The job is root of the guest, which no resource
limit binds. What else runs there is in no group: the kernel gives it a hundred times the weight of the job's whole
group, and memory and process ids that the job cannot take.
"""

from __future__ import annotations

import _socket
import array
import fcntl
import marshal
import os
import resource
import struct
import time

from .init import serve
from .kernel import (
    CLONE_NEWNET,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_REC,
    MS_REMOUNT,
    copy_of_mount,
    join_descriptor,
    mount,
    set_hostname,
    unshare,
)
from .namespaces import JobInit
from .network import raise_loopback
from .roots import FOLDER, HOSTNAME, prepare
from .shares import limit_of_job
from .words import ATTACHED, FAILED, JOB_DISK, READY, SEED_PART_BYTES, SERVICE_DISK, SSH_PORT

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn


_SEED = "/dev/vdb"
_CONTROL = f"{FOLDER}/control"
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
    prepare(spec["host_key"], spec["authorized_key"])
    os.umask(0o022)
    resource.setrlimit(resource.RLIMIT_NPROC, (spec["processes"], spec["processes"]))
    ssh = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    ssh.bind(("0.0.0.0", SSH_PORT))  # noqa: S104 - of the machine, which only its monitor reaches
    ssh.listen(_BACKLOG)
    control = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    control.bind(_CONTROL)
    control.listen(1)
    offline = _offline_network()
    parts = Arrivals()
    if os.fork() == 0:
        _attach(parts)
    _say(READY)
    serve(ssh.fileno(), control.fileno(), JobInit(offline))


def _offline_network() -> int:
    """Return a descriptor of a network namespace with nothing but a loopback."""
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    unshare(CLONE_NEWNET)
    raise_loopback()
    offline = os.open("/proc/self/ns/net", os.O_RDONLY)
    join_descriptor(own, CLONE_NEWNET)
    os.close(own)
    return offline


def _attach(parts: Arrivals) -> NoReturn:
    """Wait for the job's parts, hand its disk to the supervisor, which `init.serve` starts, and report."""
    try:
        parts.await_disk(JOB_DISK)
        job = job_of(_SEED)
        _catch_up(job["time"])
        parts.await_shape(job["cpu"], job["memory_bytes"])
        group = make_job_group(limit_of_job(), present_memory_bytes())
        disk, output = mounted_disk(parts.device(JOB_DISK), _DISK)
        services: list[int] = []
        for number, name in enumerate(job["services"]):
            parts.await_disk(f"{SERVICE_DISK}{number}")
            services += mounted_disk(parts.device(f"{SERVICE_DISK}{number}"), f"{_SERVICES}/{name}")
        control = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        control.connect(_CONTROL)
        descriptors = array.array("i", [disk, output, os.open("/dev/console", os.O_WRONLY), *services, group])
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


_GROUPS = f"{FOLDER}/groups"
_JOB_GROUP = f"{_GROUPS}/job"
_CONTROLLERS = "+cpu +memory +pids"
_WEIGHT = 1
_SERVICE_BYTES = 64 << 20


def make_job_group(processes: int, memory_bytes: int) -> int:
    """Make the group of a job in a machine of so much memory.

    Returns the descriptor by which processes join it. The job sees no group above its own. Raises OSError.
    """
    os.mkdir(_GROUPS, 0o700)
    mount("none", _GROUPS, "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC, "nsdelegate")
    _write(f"{_GROUPS}/cgroup.subtree_control", _CONTROLLERS)
    os.mkdir(_JOB_GROUP, 0o700)
    limits = {"cpu.weight": _WEIGHT, "memory.max": memory_bytes - _SERVICE_BYTES, "pids.max": processes}
    for name, value in limits.items():
        _write(f"{_JOB_GROUP}/{name}", str(value))
    return os.open(f"{_JOB_GROUP}/cgroup.procs", os.O_WRONLY)


def _write(path: str, value: str) -> None:
    with open(path, "wb", buffering=0) as file:
        file.write(value.encode())


_DISK = f"{FOLDER}/disk"
_SERVICES = f"{FOLDER}/services"
_BLOCK_DEVICES = "/sys/block"
_CPU = "/sys/devices/system/cpu/cpu%d/online"
_DIRTY = "/proc/sys/vm/dirty_"
_DIRTY_LIMITS = {"expire_centisecs": 500, "background_bytes": 16 << 20, "bytes": 64 << 20}
"""Limits of data that is in memory alone.

Data reaches the disk, and the service's count, within seconds, and the time of a snapshot depends neither on how much
the job wrote nor on its memory. The host keeps in memory what comes to the disk.
"""

_NETLINK_KOBJECT_UEVENT = 15
_EVENT_BYTES = 1 << 13
_BLOCK_BYTES = 4096
_BLKGETSIZE64 = 0x80081272
_BLKFLSBUF = 0x1261
_EXT4_IOC_RESIZE_FS = 0x40086610
_GB = 1 << 30


class Arrivals:
    """The kernel's messages about devices that come."""

    def __init__(self) -> None:
        """Listen, from before any part can come."""
        self._events = _socket.socket(_socket.AF_NETLINK, _socket.SOCK_DGRAM, _NETLINK_KOBJECT_UEVENT)
        self._events.bind((0, 1))
        self._memory_bytes = present_memory_bytes()

    def await_disk(self, serial: str) -> None:
        """Wait for the disk with a serial number, the job's or that of a service."""
        self._await(lambda: bool(self.device(serial)))

    def device(self, serial: str) -> str:
        """Return the device of the disk with a serial number; empty if it has not come."""
        for name in os.listdir(_BLOCK_DEVICES):
            try:
                with open(f"{_BLOCK_DEVICES}/{name}/serial", "rb") as file:
                    found = file.read().strip(b"\0\n").decode()
            except OSError:  # another kind of disk, or not yet whole
                continue
            if found == serial and os.path.exists(f"/dev/{name}"):
                return f"/dev/{name}"
        return ""

    def await_shape(self, cpus: int, memory_bytes: int) -> None:
        """Wait for the job's memory and processors; the first GB and processor are there from the boot on."""
        for number in range(1, cpus):
            self._await(lambda: os.path.exists(_CPU % number))  # noqa: B023 - called in this turn alone
            with open(_CPU % number, "wb", buffering=0) as file:
                file.write(b"1")
        self._await(lambda: present_memory_bytes() >= self._memory_bytes + memory_bytes - _GB)

    def _await(self, come: Callable[[], bool]) -> None:
        while not come():
            try:
                self._events.recv(_EVENT_BYTES)
            except OSError:  # there were more than the kernel keeps
                continue


def job_of(seed: str) -> dict[str, Any]:
    """Return what the service has written of the job, anew from the device."""
    device = os.open(seed, os.O_RDONLY)
    fcntl.ioctl(device, _BLKFLSBUF)
    content = os.pread(device, SEED_PART_BYTES, SEED_PART_BYTES)
    os.close(device)
    job: dict[str, Any] = marshal.loads(content)  # noqa: S302 - from the service itself
    return job


def mounted_disk(disk: str, place: str) -> tuple[int, int]:
    """Mount the disk of the job or a service, a device, grown to the size of that.

    Returns descriptors of its root and of a new file beside it for the command's output. Raises OSError. What is new of
    a disk is zero, so its tables of inodes need not be made so: the kernel would do it at once as it grows, if told
    before, and else later.
    """
    os.makedirs(place, 0o700)
    mount(disk, place, "ext4")
    for limit, value in _DIRTY_LIMITS.items():
        with open(_DIRTY + limit, "wb", buffering=0) as file:
            file.write(b"%d" % value)
    device = os.open(disk, os.O_RDONLY)
    (size,) = struct.unpack("Q", fcntl.ioctl(device, _BLKGETSIZE64, bytes(8)))
    os.close(device)
    found = os.statvfs(place)
    if found.f_blocks * found.f_frsize < size - size // 8:
        folder = os.open(place, os.O_RDONLY)
        fcntl.ioctl(folder, _EXT4_IOC_RESIZE_FS, struct.pack("Q", size // _BLOCK_BYTES))
        os.close(folder)
    mount(disk, place, "ext4", MS_REMOUNT, "noinit_itable")
    command = f"{place}/command"
    for name in os.listdir(command):
        os.unlink(f"{command}/{name}")
    output = os.open(f"{command}/output", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    return copy_of_mount(f"{place}/root"), output


def present_memory_bytes() -> int:
    """Return the memory that the kernel has by now."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
