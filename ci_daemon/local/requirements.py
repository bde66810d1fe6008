"""The requirements of local builds: images, which are made on first use, and a host that can run VMs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ci_daemon import doctor

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from actors.vms import Images

_MAKES_IMAGES = "mmdebstrap"


class HostUnfit(Exception):
    """This host cannot run VMs; the message has a line for each failed check, as `ci-daemon doctor` has."""


def make_images(
    images: Images, directory: Path, progress: Callable[[str], None], before: Callable[[], object] = lambda: None
) -> None:
    """Make the images that every build needs and that are missing, half a minute each.

    ``progress`` gets lines about it, and ``before`` is called first, unless all are there. Raises HostUnfit if VMs in
    ``directory`` cannot run, and VmError.
    """
    if missing := _missing(images):
        before()
        check_host(directory, makes_images=True)
    while missing:
        progress(f"making the image {missing[0]}, once")
        images.store.build(missing[0], progress=progress)
        missing = _missing(images)


def _missing(images: Images) -> list[str]:
    """Return the missing images, the default one first: once it is there, it shows if it can serve VMs."""
    present = images.store.names()
    return [name for name in dict.fromkeys((images.default, images.base)) if name not in present]


def check_host(directory: Path, *, makes_images: bool = False) -> None:
    """Check that this host can run VMs and make images. Raises HostUnfit."""
    failed = [check for check in doctor.needed_by_vms(directory) if not check.ok]
    unmet = [check for check in failed if check.needed or (makes_images and check.name == _MAKES_IMAGES)]
    if unmet:
        lines = [check.sentence(as_root=os.geteuid() == 0) for check in unmet]
        raise HostUnfit("\n".join(["this machine cannot run VMs yet", *lines]))
