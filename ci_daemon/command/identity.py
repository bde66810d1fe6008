"""As whom a command runs: what belongs to the service stays the service's, whoever calls."""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["become_owner"]


def become_owner(state_dir: Path) -> None:
    """Go on as the user whom a state directory belongs to, where root calls and it is another's.

    VMs, images and logs that root made would be closed to the service. Does nothing where the directory is not there.
    """
    if os.geteuid() != 0:
        return
    try:
        owner = pwd.getpwuid(state_dir.stat().st_uid)
    except (OSError, KeyError):
        return
    if owner.pw_uid == 0:
        return
    os.initgroups(owner.pw_name, owner.pw_gid)
    os.setgid(owner.pw_gid)
    os.setuid(owner.pw_uid)
    os.environ.update(HOME=owner.pw_dir, USER=owner.pw_name, LOGNAME=owner.pw_name)
    if not os.access(".", os.X_OK):
        os.chdir("/")
