"""The kernel and image disks of machines under test, shared by all of them, because they are large."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tests.programs import UNPACKED, unpacked_program


def unpacked_kernel() -> Path:
    """Return the folder with the kernel of machines, and let providers find busybox."""
    return _unpacked("kernel")


def unpacked_member_kernel() -> Path:
    """Return the folder with the kernel and firmware of machines on members; busybox is found, too."""
    return _unpacked("member-kernel")


def _unpacked(name: str) -> Path:
    programs = str(Path(unpacked_program("busybox")).parent)
    if programs not in os.environ["PATH"].split(":"):
        os.environ["PATH"] += f":{programs}"
    folder = UNPACKED / name
    assert folder.exists(), f"there is no kernel: run `make {folder.relative_to(UNPACKED.parent.parent)}/.complete`"
    return folder


def share_image_disks(folder: Path) -> None:
    """Let a provider in ``folder`` use the image disks of all tests."""
    shared = UNPACKED / "image-disks"
    shared.mkdir(exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    with suppress(FileExistsError):
        (folder / "images").symlink_to(shared)
