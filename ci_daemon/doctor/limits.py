"""Checks of limits: those of each VM, and those of the kernel that all VMs share.

One job can exhaust a shared one for the others. Raising them is the owner's decision, not ``--fix``'s: they apply to
every program on the host.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ci_daemon.doctor.check import Check, passed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.vms.host import VmLimits


def vm_limits(limits: VmLimits) -> Iterator[Check]:
    """Check for each limit of a VM whether and how it is enforced.

    The doctor does not fail because of a limit that is not enforced.
    """
    for part in limits.describe():
        name = f"limit on {part.resource}"
        if part.enforced:
            yield passed(name, part.how)
        else:
            detail = f"{part.how}: to enforce it, run the service with the units in systemd/ or as root"
            yield Check(name, ok=False, detail=detail, needed=False, fixable=False)


_MINIMUMS = {
    "fs.pipe-user-pages-soft": (1 << 20, "one job with many pipes shrinks those of all others to 8 KiB"),
    "fs.epoll.max_user_watches": (1 << 26, "one job can take all epoll watches from the others"),
    "fs.inotify.max_user_instances": (8192, "each VM has an equal share, which is small"),
    "fs.aio-max-nr": (1 << 20, "one job can take all asynchronous I/O of databases from the others"),
    "fs.file-max": (1 << 24, "one job can take all open files from this host"),
    "kernel.pty.max": (1 << 20, "one job that mounts terminals of its own can take all from the others"),
}
"""The lowest sufficient value of each sysctl, and the consequence of a lower one.

The memory behind each counts against the job's memory limit.
"""
_ZERO_IS_UNLIMITED = {"fs.pipe-user-pages-soft"}
"""The sysctls for which 0 means no limit."""


def shared_limits(sysctl: Path = Path("/proc/sys")) -> Iterator[Check]:
    """Check that each limit is high enough.

    Also report the limit of descriptors in flight, which cannot be divided among VMs.
    """
    yield passed(
        "descriptors in flight",
        "all VMs share one limit on descriptors that are sent over sockets: the number of open files of one process. A"
        " job that uses it up breaks programs of other jobs that send some, but not the service",
    )
    for key, (minimum, why) in _MINIMUMS.items():
        path = sysctl.joinpath(*key.split("."))
        if not path.exists():
            continue
        value = int(path.read_text(encoding="ascii"))
        if value >= minimum or (value == 0 and key in _ZERO_IS_UNLIMITED):
            yield passed(key, f"{value} is enough for many VMs")
        else:
            setting = f"{key}={minimum}"
            fix = f"sh -c 'sysctl -w {setting} && echo {setting} >> /etc/sysctl.d/60-ci-daemon.conf'"
            yield Check(key, ok=False, detail=f"{value} is low: {why}", fix=fix, needed=False, fixable=False)
