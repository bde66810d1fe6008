"""The testbed of a benchmark: a temporary folder on the disk where the service keeps its state."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from actors.vms import Connection, ImageStore, SandboxProvider
from actors.vms.host import IdMap, run_mapped
from actors.vms.images import STANDARD
from storage import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.vms import SshEndpoint

_RUN = Path(__file__).parent.parent / ".run"
_COMMAND_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Testbed:
    """A folder, the name of an image, the folder of all images, the image's root, and a provider."""

    folder: Path
    image: str
    images_dir: Path
    root: Path
    provider: SandboxProvider


@contextmanager
def open_testbed() -> Iterator[Testbed]:
    """Make the folder; at the end, destroy every VM and remove the folder.

    Raises VmError if the image is missing.
    """
    idmap, clock = IdMap.of_caller(), SystemClock()
    images_dir = Path(os.environ.get("CI_DAEMON_IMAGES_DIR") or _RUN / "images")
    images = ImageStore(images_dir, idmap)
    root = images.path(STANDARD)
    _RUN.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=_RUN))
    try:
        provider = SandboxProvider(folder / "sandbox", images, idmap, clock)
        try:
            yield Testbed(folder, STANDARD, images_dir, root, provider)
        finally:
            for vm in provider.list():
                provider.destroy(vm)
    finally:
        run_mapped(["rm", "-rf", "--", folder.name], idmap=idmap.with_caller(), cwd=folder.parent)


def first_command(endpoint: SshEndpoint, started: float, script: str = "true") -> float:
    """Connect, run a script, and return the milliseconds since ``started``, a time of `perf_counter`."""
    with Connection(endpoint, SystemClock()) as connection:
        done = connection.run(script, timeout=_COMMAND_TIMEOUT_SECONDS)
        took = (perf_counter() - started) * 1000
    if done.exit_code != 0:
        raise RuntimeError("`true` failed")
    return took
