"""The DSL of pipeline files: the installed package as a zip archive, for Python in a VM to import."""

from __future__ import annotations

import io
import marshal
import zipfile
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from importlib.util import MAGIC_NUMBER, source_hash
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

__all__ = ["dsl_version", "packed_dsl"]

_NAME = "harmont"
_UNCHECKED = 1
"""The flags of byte code that is valid whatever the time and content of its source."""


def dsl_version() -> str:
    """Return the installed version of the DSL."""
    return version(_NAME)


@cache
def packed_dsl() -> bytes:
    """Return the package's modules as a zip archive of some hundred kB.

    Each is there as byte code too, which a Python of this one's version takes: compiling is most of an import.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in _modules(files(_NAME), _NAME):
            archive.writestr(name, source)
            archive.writestr(f"{name}c", _byte_code(name, source))
    return buffer.getvalue()


def _byte_code(name: str, source: bytes) -> bytes:
    """Return the content of a ``.pyc`` that is used without a look at its source (PEP 552)."""
    code = marshal.dumps(compile(source, name, "exec", dont_inherit=True))
    return MAGIC_NUMBER + _UNCHECKED.to_bytes(4, "little") + source_hash(source) + code


def _modules(package: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for entry in package.iterdir():
        below = f"{path}/{entry.name}"
        if entry.is_dir():
            yield from _modules(entry, below)
        elif entry.name.endswith(".py"):
            yield below, entry.read_bytes()
