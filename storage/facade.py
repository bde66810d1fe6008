"""Public names of packages, each imported on first use.

A command uses few of the names in its packages, and imports take most of its time.

Considered: a table of names beside the imports for type checkers lists each name twice, and stubs list it in another
file; to parse the package's source takes ten times as long as to run its imports.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import CodeType


def on_first_use(package: str) -> Callable[[str], object]:
    """Return the ``__getattr__`` of the calling package: its names are imports for type checkers.

        if TYPE_CHECKING:
            from storage.builds.builds import Builds
        else:
            __getattr__ = on_first_use(__name__)

    The first use of ``Builds`` imports it. No submodule may have the name of one, and nothing else than such imports
    stands outside of the ``else``.
    """
    module = sys.modules[package]
    code = sys._getframe(1).f_code  # noqa: SLF001 - that of the package, compiled

    @cache
    def declared() -> Mapping[str, tuple[str, str]]:
        return _imports(code)

    def import_name(name: str) -> object:
        if name not in declared():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        origin, original = declared()[name]
        value = getattr(import_module(origin), original)
        setattr(module, name, value)
        return value

    return import_name


def _imports(code: CodeType) -> Mapping[str, tuple[str, str]]:
    """Return the names that a package imports, with their modules and their names there.

    The package runs once more, as type checkers read it: its imports only note what they would import, and of
    `TYPE_CHECKING`, too, so that it is true.
    """

    def note(module: str, _globals: object, _locals: object, names: Iterable[str] | None, _level: int) -> object:
        return SimpleNamespace(**{name: (module, name) for name in names or ()})

    noted: dict[str, Any] = {"__builtins__": {"__import__": note}}
    exec(code, noted)  # noqa: S102 - imports, of which each is a note
    return {name: origin for name, origin in noted.items() if isinstance(origin, tuple)}
