"""The DSL of pipeline files: the installed package as a zip archive, for Python in a VM to import."""

from __future__ import annotations

import io
import marshal
import zipfile
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.metadata import version
from importlib.util import MAGIC_NUMBER, find_spec, source_hash
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = "harmont"
_UNCHECKED = 1
"""The flags of byte code that is valid whatever the time and content of its source."""


def dsl_version() -> str:
    """Return the installed version of the DSL."""
    return version(_NAME)


@cache
def packed_dsl() -> bytes:
    """Return the package's modules as a zip archive of some hundred kB, found without importing them.

    Each is there as byte code too, which a Python of this one's version takes: compiling is most of an import. It is
    not compressed, because that would take longer than sending what it saves.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, file in _modules():
            source = file.read_bytes()
            archive.writestr(name, source)
            archive.writestr(f"{name}c", _byte_code(name, file, source))
    return buffer.getvalue()


def _modules() -> Iterator[tuple[str, Path]]:
    """Yield the package's modules, each with its name in the archive and its installed file."""
    spec = find_spec(_NAME)
    for folder in map(Path, (spec and spec.submodule_search_locations) or ()):
        for file in sorted(folder.rglob("*.py")):
            yield f"{_NAME}/{file.relative_to(folder).as_posix()}", file


def _byte_code(name: str, file: Path, source: bytes) -> bytes:
    """Return the content of a ``.pyc`` that is used without a look at its source (PEP 552).

    It is read from the installed one, if that is up to date.
    """
    code = SourceFileLoader(name, str(file)).get_code(name)
    assert code is not None  # noqa: S101 - a source file has code
    return MAGIC_NUMBER + _UNCHECKED.to_bytes(4, "little") + source_hash(source) + marshal.dumps(_located(code, name))


def _located(code: CodeType, name: str) -> CodeType:
    """Return a module's code with the archive's name in tracebacks, in place of this host's path."""
    constants = (_located(each, name) if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_filename=name, co_consts=tuple(constants))
