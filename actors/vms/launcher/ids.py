"""The ids of a user namespace: mapped from outside, then taken from inside."""

from __future__ import annotations

import os

from .kernel import CLONE_NEWUSER, unshare

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from collections.abc import Callable


_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
_MAX_DIGITS = 16


def map_ids(pid: int, uid_map: str, gid_map: str) -> None:
    """Map the ids of the namespace of ``pid``. A map is ``INSIDE OUTSIDE COUNT``. Raises OSError.

    Root writes the maps directly; other users need newuidmap and newgidmap.
    """
    maps = (("uid_map", uid_map), ("gid_map", gid_map))
    if os.geteuid() == 0:
        for name, extent in maps:
            with open(f"/proc/{pid}/{name}", "wb", buffering=0) as file:
                file.write(extent.encode())
        return
    programs = [(f"new{name.replace('_', '')}", extent) for name, extent in maps]
    running = [
        os.posix_spawnp(program, [program, str(pid), *extent.split()], _ENVIRONMENT) for program, extent in programs
    ]
    if any([os.waitpid(each, 0)[1] for each in running]):  # noqa: C419 - both must be waited for
        message = f"the ids {uid_map} and {gid_map} cannot be mapped: compare /etc/subuid and /etc/subgid"
        raise OSError(message)


def as_root(uid_map: str, gid_map: str, function: Callable[[], object]) -> int:
    """Call a function in a child that is root of its own user namespace; return the child's exit status.

    The child reports its own id, because in a PID namespace ``/proc`` may know it by another one than fork returns.
    """
    mapped, report_mapped = os.pipe()
    entered, report_entered = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(report_mapped)
            unshare(CLONE_NEWUSER)
            os.write(report_entered, own_id())
            if os.read(mapped, 1) == b"1":
                become_root()
                function()
                os._exit(0)
        except Exception as error:  # noqa: BLE001 - the boundary of this process
            os.write(2, f"{error}\n".encode())
        finally:
            os._exit(1)
    os.close(report_entered)
    try:
        if pid := os.read(entered, _MAX_DIGITS):
            map_ids(int(pid), uid_map, gid_map)
            os.write(report_mapped, b"1")
    except OSError as error:
        os.write(2, f"{error}\n".encode())
    os.close(report_mapped)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def enter_mapping(uid_map: str, gid_map: str) -> None:
    """Become root of a user namespace of this process's own, whose ids a child outside of it maps.

    Raises OSError.
    """
    ready, report_ready = os.pipe()
    this_process = int(own_id())
    mapper = os.fork()
    if mapper == 0:
        status = 1
        try:
            os.close(report_ready)
            if os.read(ready, 1):
                map_ids(this_process, uid_map, gid_map)
                status = 0
        finally:
            os._exit(status)
    os.close(ready)
    unshare(CLONE_NEWUSER)
    os.write(report_ready, b"1")
    os.close(report_ready)
    if os.waitpid(mapper, 0)[1]:
        message = f"the ids {uid_map} and {gid_map} cannot be mapped: compare /etc/subuid and /etc/subgid"
        raise OSError(message)
    become_root()


def own_id() -> bytes:
    """Return this process's id in the mounted ``/proc``."""
    return os.readlink(b"/proc/self")


def become_root() -> None:
    """Become root of the user namespace that this process is in."""
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
