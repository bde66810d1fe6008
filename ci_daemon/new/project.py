"""The files of a project, as far as they tell its language."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_MAX_BYTES = 1 << 20
_MAX_FILES = 20_000
_NOT_SOURCES = frozenset({"node_modules", "venv", "target", "build", "dist", "vendor"})


@immutable
class Project:
    """The texts of the files at the top, and the names of all files."""

    texts: Mapping[str, str]
    names: frozenset[str]

    @classmethod
    def read(cls, tree: Path) -> Project:
        """Read a tree, without hidden folders and those that tools make; of large trees only a part."""
        names: set[str] = set()
        for _, folders, files in os.walk(tree):
            folders[:] = [each for each in folders if not each.startswith(".") and each not in _NOT_SOURCES]
            names.update(files)
            if len(names) > _MAX_FILES:
                break
        tops = [each for each in tree.iterdir() if each.is_file() and each.stat().st_size <= _MAX_BYTES]
        return cls(
            {each.name: each.read_text("utf-8", errors="replace") for each in tops},
            frozenset(names),
        )

    def has(self, name: str) -> bool:
        """Tell whether a file is at the top."""
        return name in self.texts

    def those(self, *names: str) -> tuple[str, ...]:
        """Return the names of files that are at the top."""
        return tuple(name for name in names if name in self.texts)
