"""Programs that only tests need, of packages that are unpacked below the checkout and not installed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

UNPACKED = Path(__file__).parent.parent / ".run" / "test-programs"
_PROGRAMS = ("usr/bin", "bin", "usr/sbin")


def unpacked_program(name: str) -> str:
    """Return the path of a program, if need be of one that the host has installed."""
    found = shutil.which(name, path=":".join([*(f"{UNPACKED}/{each}" for each in _PROGRAMS), os.environ["PATH"]]))
    assert found, f"there is no {name}: run `make .run/test-programs/.complete`"
    return found


def unpacked_libraries() -> str:
    """Return the folders of their libraries, for LD_LIBRARY_PATH."""
    return ":".join(str(folder) for place in ("lib", "usr/lib") for folder in (UNPACKED / place).glob("*-linux-gnu"))
