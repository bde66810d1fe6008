"""The ids of a user namespace: mapped from outside, by whoever may, and taken from inside."""

from __future__ import annotations

import os

_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}


def map_ids(pid: int, uid_map: str, gid_map: str) -> None:
    """Map the ids of the namespace of ``pid``: as root by hand, else by the two programs that may. Raises OSError.

    A map is ``INSIDE OUTSIDE COUNT``.
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
    if any([os.waitpid(each, 0)[1] for each in running]):  # noqa: C419 - both are waited for
        message = f"the ids {uid_map} and {gid_map} cannot be mapped: compare /etc/subuid and /etc/subgid"
        raise OSError(message)


def become_root() -> None:
    """Be root of the user namespace that this process is in."""
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
