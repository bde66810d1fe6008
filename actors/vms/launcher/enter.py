"""Run a program as root of a new user namespace.

Usage: ``python -I -S enter.py UID_MAP GID_MAP PROGRAM [ARGUMENT...]``. A map is a list of extents ``INSIDE OUTSIDE
COUNT``, joined by commas. This file is run by path and imports only the standard library. The program keeps the working
directory, the descriptors and the environment. Exit status 125 means that it was not started.
"""

from __future__ import annotations

import ctypes
import os
import sys
import warnings  # noqa: F401 - os.execvp imports it, when the new ids may no longer read its file

TYPE_CHECKING = False  # importing typing takes longer than all other imports together
if TYPE_CHECKING:
    from typing import NoReturn

CLONE_NEWUSER = 0x10000000
NOT_STARTED = 125


def main(uid_map: str, gid_map: str, *program: str) -> NoReturn:
    """Become root of the mapping and execute the program."""
    try:
        enter(uid_map, gid_map)
        os.execvp(program[0], program)  # noqa: S606 - the very point
    except OSError as error:
        fail(f"{program[0]}: {error.strerror or error}")


def enter(uid_map: str, gid_map: str) -> None:
    """Make the namespace, whose ids a child outside of it maps, and take its ids."""
    libc = ctypes.CDLL(None, use_errno=True)
    ready_read, ready_write = os.pipe()
    mapper = os.fork()
    if mapper == 0:
        os.close(ready_write)
        entered = os.read(ready_read, 1)
        os._exit(write_maps(os.getppid(), uid_map, gid_map) if entered else NOT_STARTED)
    os.close(ready_read)
    if libc.unshare(CLONE_NEWUSER) != 0:
        reason = os.strerror(ctypes.get_errno())
        fail(f"user namespaces are not allowed here ({reason}): see `ci-daemon doctor`")
    os.write(ready_write, b"1")
    os.close(ready_write)
    _, status = os.waitpid(mapper, 0)
    if status != 0:
        fail(f"the ids {uid_map} and {gid_map} cannot be mapped: compare /etc/subuid and /etc/subgid")
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)


def write_maps(pid: int, uid_map: str, gid_map: str) -> int:
    """Map the ids of the namespace that process ``pid`` has made; return an exit status.

    If run as root it raises OSError instead when that fails.
    """
    for name, extents in (("uid_map", uid_map), ("gid_map", gid_map)):
        if os.geteuid() == 0:
            with open(f"/proc/{pid}/{name}", "w", encoding="ascii") as file:
                file.write(extents.replace(",", "\n") + "\n")
        else:
            argv = [f"new{name.replace('_', '')}", str(pid), *extents.replace(",", " ").split()]
            if os.spawnvp(os.P_WAIT, argv[0], argv) != 0:  # noqa: S606 - the very point
                return 1
    return 0


def fail(message: str) -> NoReturn:
    """Print why the program was not started, and exit."""
    sys.stderr.write(f"{message}\n")
    sys.exit(NOT_STARTED)


if __name__ == "__main__":
    main(*sys.argv[1:])
