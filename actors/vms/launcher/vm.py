"""A sandbox on the service's host: its first process, its monitor, and the disk attached to it.

The first process maps the VM's ids from outside, records the VM's processes, and ends. ``ready`` or ``failed WHY`` is
written to its standard output; its standard error is the VM's log. The lock file makes the VM findable: this process
and then the monitor hold it as long as anything of the VM lives, and their ids are written in it. A machine begins in
the same way.

The monitor makes the VM's namespaces and disk, and the VM ends with it. It is PID 1 of a PID namespace that holds the
VM's own PID 1 and the program for its network, so they are killed with it; if one of the two ends, it ends too. It also
ends if the VM's folder is removed, because the VM could not be found again. It and the VM's disk are in the outer user
namespace, which bounds the VM's shares (``shares.py``); the VM is in the inner one, which owns all its other
namespaces.

A disk is attached to a parked VM (engine.md, "Parked VMs") by a mount that is made in the monitor's namespaces, by a
process with the service's ids: only that may enter the host's folders above the layers, and overlayfs takes no layer
from another mount namespace. It is then handed over.
"""

from __future__ import annotations

import _socket
import array
import fcntl
import marshal
import os
import sys

from .ids import become_root, map_ids
from .init import GuestProcess
from .kernel import (
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    MS_BIND,
    MS_PRIVATE,
    MS_REC,
    answer,
    child_ended,
    close_all_but,
    copy_of_mount,
    fork_into,
    join_descriptor,
    make_read_only,
    mount,
    raise_oom_score,
    set_dumpable,
    set_title,
)
from .machine_monitor import monitor_machine
from .network import NetworkProgram, publish_namespace
from .shares import NETWORK_PROGRAM_ID, bound_shares, take_limits, take_objects, take_terminals

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn


_REPORT, _LOG = 1, 2
_OOM_SCORE = 990
"""Slightly below a job's 1000, so that the kernel kills the job before what runs it.

A job can lower its own score to this, no further: the less they differ, the less it gains over its neighbours.
"""


def make(lock: int, listener: int, control: int, programs: int) -> int:
    """Make the sandbox of the spec with these descriptors; return an exit status."""
    return _start(_monitor, {"lock": lock, "arrivals": listener, "control": control, "programs": programs})


def make_machine(lock: int, listener: int, control: int, commands: int) -> int:
    """Make the machine of the spec with these descriptors; return an exit status."""
    given = {"lock": lock, "listener": listener, "control": control, "commands": commands}
    return _start(monitor_machine, given)


def _start(run: Callable[[dict[str, Any], int, int, int], NoReturn], given: dict[str, int]) -> int:
    """Start the monitor that runs by this function; return an exit status."""
    spec = {**marshal.load(sys.stdin.buffer), **given}  # noqa: S302 - from the service itself
    try:
        _record(spec["lock"], os.getpid())
        _join(spec["cgroups"])
        raise_oom_score(_OOM_SCORE)
        spec["share_of_objects"] = take_objects(spec["vms"])
        spec["share_of_limits"] = take_limits(spec["vms"], spec["processes"])
        spec["terminals"] = take_terminals(spec["vms"])
        pid, mapped = _fork_monitor(run, spec)
        _record(spec["lock"], pid)
        map_ids(pid, spec["uid_map"], spec["gid_map"])
        os.write(mapped, b"1")
    except OSError as error:
        os.write(_REPORT, f"failed {error}\n".encode())
        return 1
    return 0


def _record(lock: int, pid: int) -> None:
    """Add a process to the lock file: its id, and its start time, because an id may be used again."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        started = file.read().rpartition(b")")[2].split()[19]
    os.write(lock, b"%d %s\n" % (pid, started))


def _join(cgroups: list[str]) -> None:
    for join_file in cgroups:
        with open(join_file, "wb", buffering=0) as file:
            file.write(b"0")


def _fork_monitor(run: Callable[[dict[str, Any], int, int, int], NoReturn], spec: dict[str, Any]) -> tuple[int, int]:
    """Return the monitor's id, and the descriptor that tells it that its ids are mapped."""
    mapped, report_mapped = os.pipe()
    try:
        pid = fork_into(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID)
    except OSError as error:
        message = f"user namespaces are not allowed here: {error}"
        raise OSError(message) from error
    if pid == 0:
        os.close(report_mapped)
        run(spec, mapped, _REPORT, _LOG)
    return pid, report_mapped


_CHECK_SECONDS = 5.0


def _monitor(spec: dict[str, Any], mapped: int, report: int, log: int) -> NoReturn:
    """Make the VM and run until it ends. Writes ``ready`` or ``failed WHY`` to ``report``."""
    try:
        _make_vm(spec, mapped, report, log)
        answer(report, b"ready\n")
        os.chdir("/")
        close_all_but(spec["lock"], spec["base"])
        set_title(f"ci-daemon VM {spec['id']}".encode())
    except Exception as error:  # noqa: BLE001 - the boundary of this process
        answer(report, f"failed {error}\n".encode())
    else:
        while not child_ended(_CHECK_SECONDS) and os.fstat(spec["lock"]).st_nlink:
            pass
    finally:
        os._exit(1)


def _make_vm(spec: dict[str, Any], mapped: int, report: int, log: int) -> None:
    mount("none", "/", flags=MS_REC | MS_PRIVATE)
    spec["base"] = base = os.open(spec["base"], os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(base, fcntl.LOCK_SH)  # held as long as the VM lives, so that nobody removes the tree
    disks = os.open(spec["disks"], os.O_PATH)
    if os.read(mapped, 1) != b"1":
        os._exit(1)
    become_root()
    set_dumpable(dumpable=True)
    os.umask(0o022)
    disk = _make_disk(disks, spec["id"])
    network_program = NetworkProgram(spec["network"], disk, log) if spec["network"] else None
    mount(f"/proc/self/fd/{base}", f"{disk}/outer", flags=MS_BIND)
    make_read_only(f"{disk}/outer")
    bound_shares(spec["share_of_limits"], spec["share_of_objects"])
    guest_process = GuestProcess(spec, f"{disk}/outer", report)
    if network_program:
        publish_namespace(guest_process.pid, disk)
        network_program.go()
    guest_process.go()
    if network_program:
        network_program.wait()


def _make_disk(disks: int, name: str) -> str:
    """Make the VM's folder, with the folders of overlayfs in it, and return a path to it.

    The path goes through a descriptor, because the VM's root may not enter the host's folders above it.
    """
    os.mkdir(name, 0o755, dir_fd=disks)
    disk = f"/proc/self/fd/{os.open(name, os.O_PATH, dir_fd=disks)}"
    for part in ("upper", "work", "root", "outer", "command"):
        os.mkdir(f"{disk}/{part}", 0o755)
    return disk


def attach(control: int) -> int:
    """Send the disk of the spec to the VM through its ``control`` socket, where it answers the service.

    Reports ``ready`` or ``failed WHY``; returns an exit status.
    """
    spec = marshal.load(sys.stdin.buffer)  # noqa: S302 - from the service itself
    try:
        groups = [os.open(join_file, _mode(join_file)) for join_file in spec["cgroups"]]
        disk = _mounted(spec)
        for number, join_file in enumerate(spec["cgroups"]):
            if _mode(join_file) == os.O_PATH:
                groups[number] = os.open(f"/proc/self/fd/{groups[number]}", os.O_WRONLY)
        socket = _socket.socket(fileno=control)
        output = _output_file(f"{disk}/command/output")
        services = [part for folder in _services(spec, disk) for part in _parts_of_service(folder)]
        descriptors = array.array("i", [copy_of_mount(f"{disk}/root"), output, _LOG, *services, *groups])
        rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors.tobytes())
        os.setresuid(NETWORK_PROGRAM_ID, 0, 0)  # what is on its way counts for an id that no VM has
        socket.sendmsg([marshal.dumps(spec["job"])], [rights])
        os.write(_REPORT, b"ready\n")
    except OSError as error:
        os.write(_REPORT, f"failed {error}\n".encode())
        return 1
    return 0


def _mode(join_file: str) -> int:
    """Return the mode in which the service opens the file through which processes join a group.

    In version 1 (``tasks``), a user other than root may move only its own processes, by a file that it has opened.
    So the VM's root opens it again.
    """
    return os.O_PATH if join_file.endswith("/tasks") else os.O_WRONLY


def _mounted(spec: dict[str, Any]) -> str:
    """Mount the disk in the monitor's mount namespace; return a path to the VM's folder."""
    for namespace in [os.open(f"/proc/{spec['monitor']}/ns/{kind}", os.O_RDONLY) for kind in ("user", "mnt")]:
        join_descriptor(namespace, 0)
    layers = [os.open(path, os.O_PATH) for path in spec["layers"]]
    images = [os.open(service["image"], os.O_PATH) for service in spec["services"]]
    disk = f"/proc/self/fd/{os.open(str(spec['disk']), os.O_PATH)}"
    become_root()
    os.umask(0o022)
    with open(f"{disk}/chain", "wb") as file:
        file.write(spec["chain"])
    _mount_overlay(disk, ":".join(f"/proc/self/fd/{layer}" for layer in layers))
    for image, folder in zip(images, _services(spec, disk), strict=True):
        for part in ("", "/upper", "/work", "/root"):
            os.makedirs(f"{folder}{part}", 0o755, exist_ok=True)
        _mount_overlay(folder, f"/proc/self/fd/{image}")
    return disk


def _mount_overlay(folder: str, lower: str) -> None:
    options = f"userxattr,volatile,upperdir={folder}/upper,workdir={folder}/work,lowerdir={lower}"
    mount("overlay", f"{folder}/root", "overlay", data=options)


def _services(spec: dict[str, Any], disk: str) -> list[str]:
    """Return the folders of the disks of services, in the VM's own."""
    return [f"{disk}/services/{service['name']}" for service in spec["services"]]


def _parts_of_service(folder: str) -> tuple[int, int]:
    """Return descriptors of a service's disk, a mount in no namespace, and of a new file for its output."""
    return copy_of_mount(f"{folder}/root"), _output_file(f"{folder}/output")


def _output_file(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
