"""Run a program as root of a new user namespace: ``python -I -S enter.py UID_MAP GID_MAP PROGRAM [ARGUMENT...]``.

A map is ``INSIDE OUTSIDE COUNT`` extents joined by commas. This file is run by path and imports the standard library
alone. The program keeps the working directory, the descriptors and the environment. Status 125: it was not started.
"""

from __future__ import annotations

import ctypes
import os
import sys
import warnings  # noqa: F401 - os.execvp does, when the new ids may no longer read the file

TYPE_CHECKING = False  # the module of this name takes longer to import than all the others together
if TYPE_CHECKING:
    from typing import NoReturn

CLONE_NEWUSER = 0x10000000
NOT_STARTED = 125


def main(uid_map: str, gid_map: str, *program: str) -> NoReturn:
    """Become root of the mapping, then the program."""
    try:
        enter(uid_map, gid_map)
        os.execvp(program[0], program)  # noqa: S606 - the very point
    except OSError as error:
        fail(f"{program[0]}: {error.strerror or error}")


def enter(uid_map: str, gid_map: str) -> None:
    """Make the namespace, have it mapped by a child that stayed outside, and take its ids."""
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
    """Map the ids of the namespace that process ``pid`` has made; return an exit status. Raises OSError as root."""
    for name, extents in (("uid_map", uid_map), ("gid_map", gid_map)):
        if os.geteuid() == 0:
            with open(f"/proc/{pid}/{name}", "w", encoding="ascii") as file:  # noqa: PTH123 - pathlib costs start-up time
                file.write(extents.replace(",", "\n") + "\n")
        else:
            argv = [f"new{name.replace('_', '')}", str(pid), *extents.replace(",", " ").split()]
            if os.spawnvp(os.P_WAIT, argv[0], argv) != 0:  # noqa: S606
                return 1
    return 0


def fail(message: str) -> NoReturn:
    """Say why the program was not started, and end."""
    sys.stderr.write(f"{message}\n")
    sys.exit(NOT_STARTED)


if __name__ == "__main__":
    main(*sys.argv[1:])
