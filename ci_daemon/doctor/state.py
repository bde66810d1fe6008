"""What the service needs of its own: the state directory, room on the disk, an image."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from actors.vms.sandbox.userns import NoSubIds
from ci_daemon.doctor.check import Check, good
from ci_daemon.doctor.host import existing
from ci_daemon.providers import open_images

if TYPE_CHECKING:
    from pathlib import Path

    from ci_daemon.config import Config

__all__ = ["default_image", "room", "state_directory"]

_GIB = 2**30
_LEAST_GIB = 5
_PRIVATE = 0o077


def state_directory(directory: Path) -> Check:
    """The state directory: made, this user's, and its key nobody else's."""
    name = "state"
    command = f"ci-daemon --state-dir {directory}"
    key = directory / "secret.key"
    try:
        if not (directory / "ci-daemon.sqlite3").exists():
            detail = f"{directory} is no state directory yet"
            return Check(name, ok=False, detail=detail, mend=f"{command} init", root=False, fixable=False)
        if key.stat().st_mode & _PRIVATE:
            detail = f"{key} is open to others"
            return Check(name, ok=False, detail=detail, mend=f"chmod 0600 {key}", root=False)
        if not all(os.access(path, os.R_OK | os.W_OK) for path in (directory, directory / "ci-daemon.sqlite3", key)):
            owner = directory.owner()
            detail = f"{directory} belongs to {owner}: run as {owner}"
            return Check(name, ok=False, detail=detail, fixable=False)
    except PermissionError:
        return Check(name, ok=False, detail=f"{directory} is closed to this user: run as its owner", fixable=False)
    except FileNotFoundError:
        detail = f"{key} is missing: bring it back from a backup, without it the secrets in the database are lost"
        return Check(name, ok=False, detail=detail, fixable=False)
    return good(name, f"{directory} is a state directory")


def room(directory: Path) -> Check:
    """Free space where VMs write."""
    folder = existing(directory)
    free = shutil.disk_usage(folder).free / _GIB
    detail = f"{free:.1f} GiB are free below {folder}"
    if free >= _LEAST_GIB:
        return good("disk", detail)
    return Check("disk", ok=False, detail=f"{detail}, less than {_LEAST_GIB}: free some", needed=False, fixable=False)


def default_image(state_dir: Path, config: Config) -> Check:
    """The image that steps without one start from."""
    name = "image"
    try:
        images = open_images(state_dir, config)
    except NoSubIds:
        return Check(
            name, ok=False, detail="no image can be made before there are sub-ids", needed=False, fixable=False
        )
    default = images.default
    if default in images.store.names():
        return good(name, f"the image {default} is there")
    detail = f"there is no image {default}, from which most steps start"
    mend = f"ci-daemon --state-dir {state_dir} image build {default}"
    return Check(name, ok=False, detail=detail, mend=mend, needed=False, root=False, fixable=False)
