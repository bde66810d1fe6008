"""The place of a state directory, by which a copy of it knows that it is one.

Rows and files of a copy name the VMs of the original, whose service is their only owner: two services would end each
other's jobs. A file in the directory holds its own inode number, so that every copy of it is wrong about itself. A move
within one file system keeps inode numbers.
"""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

from storage import PROVIDERS, boot_id

if TYPE_CHECKING:
    from pathlib import Path

PLACE = "ci-daemon.place"
"""The name of the file, which no backup has."""


class StateCopied(Exception):
    """The state directory is a copy, and its owner has not said whether the original is gone."""

    def __init__(self, directory: Path) -> None:
        super().__init__(
            f"{directory} is a copy of a state directory, so its VMs may be another service's. If the original is gone"
            " and this one takes its place, run `ci-daemon claim`; if the original lives on, `ci-daemon claim --copy`"
        )


def check_place(directory: Path) -> None:
    """Raise StateCopied if a state directory is a copy; its VMs must not be touched then."""
    if is_copy(directory):
        raise StateCopied(directory)


def is_copy(directory: Path) -> bool:
    """Tell whether a state directory is a copy of one in which a service ran.

    Device numbers are compared within a boot only: the next one may give others.
    """
    known = _read(directory)
    if known is None:
        return False
    found = (directory / PLACE).stat()
    moved = known["boot"] == boot_id() and known["device"] != found.st_dev
    return known["inode"] != found.st_ino or moved


def engine_prefix(directory: Path) -> str | None:
    """Return the prefix of the VMs that the service had on an Incus server; None if no service ran here."""
    known = _read(directory)
    return None if known is None else str(known["prefix"])


def _read(directory: Path) -> dict[str, object] | None:
    """Return the contents; None for an older release's directory, and for another user."""
    try:
        known: dict[str, object] = json.loads((directory / PLACE).read_text())
    except (FileNotFoundError, PermissionError):
        return None
    return known


def claim_place(directory: Path, prefix: str) -> None:
    """Make a state directory the owner of the VMs that it names; on Incus those with a prefix."""
    new = directory / f"{PLACE}.new"
    with new.open("w") as file:
        found = os.fstat(file.fileno())
        known = {"inode": found.st_ino, "device": found.st_dev, "boot": boot_id(), "prefix": prefix}
        json.dump(known, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(directory / PLACE)


def discard_vms(directory: Path) -> int:
    """Remove what a copy has of the original's VMs, not the VMs themselves; return how many it had."""
    folders = [each for name in PROVIDERS for each in (directory / name / "vms").glob("*")]
    for each in folders:
        shutil.rmtree(each)
    return len(folders)
