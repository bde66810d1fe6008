"""Checks of the limits on a VM that this host can enforce."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_daemon.doctor.check import Check, good

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.vms.sandbox.limits import Limits

__all__ = ["enforcement"]


def enforcement(limits: Limits) -> Iterator[Check]:
    """Check for each part of a shape whether and how it is enforced.

    The doctor does not fail because of a limit that is not enforced.
    """
    for part in limits.describe():
        name = f"limit on {part.resource}"
        if part.enforced:
            yield good(name, part.how)
        else:
            detail = f"{part.how}: run the service by the units in systemd/ or as root to have it enforced"
            yield Check(name, ok=False, detail=detail, needed=False, fixable=False)
