"""Public names of packages, each imported on first use.

A command uses few of the names in its packages, and imports take most of its time.
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def on_first_use(package: str) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a package that declares its names as imports for type checkers.

        if TYPE_CHECKING:
            from storage.builds.builds import Builds
        else:
            __getattr__ = on_first_use(__name__)

    The first use of ``Builds`` imports it, and ``__all__`` has the names. No submodule may have the name of one.
    """
    module = sys.modules[package]

    def import_name(name: str) -> object:
        declared = _declared(Path(str(module.__file__)))
        if name == "__all__":
            return sorted(declared)
        if name not in declared:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        origin, original = declared[name]
        value = getattr(import_module(origin), original)
        setattr(module, name, value)
        return value

    return import_name


@cache
def _declared(file: Path) -> Mapping[str, tuple[str, str]]:
    """Return the names that a file imports for type checkers, with their modules and their names there."""
    branches = [each for each in ast.parse(file.read_bytes()).body if isinstance(each, ast.If)]
    imports = [each for branch in branches for each in branch.body if isinstance(each, ast.ImportFrom)]
    return {each.asname or each.name: (str(line.module), each.name) for line in imports for each in line.names}
