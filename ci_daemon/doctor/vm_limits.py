"""Checks of the limits on a VM that this host can enforce."""

from __future__ import annotations

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
