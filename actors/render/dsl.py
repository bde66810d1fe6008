"""The DSL of pipeline files: the installed package as a zip archive, for Python in a VM to import."""

from __future__ import annotations

import io
import zipfile
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

__all__ = ["dsl_version", "packed_dsl"]

_NAME = "harmont"


def dsl_version() -> str:
    """Return the installed version of the DSL."""
    return version(_NAME)


def packed_dsl() -> bytes:
    """Return the package's modules as a zip archive of some tens of kB."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in _modules(files(_NAME), _NAME):
            archive.writestr(name, source)
    return buffer.getvalue()


def _modules(package: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for entry in package.iterdir():
        below = f"{path}/{entry.name}"
        if entry.is_dir():
            yield from _modules(entry, below)
        elif entry.name.endswith(".py"):
            yield below, entry.read_bytes()
