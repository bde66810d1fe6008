"""The parts of a file that are not converted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from storage import immutable

if TYPE_CHECKING:
    from ci_daemon.convert.located import Located

__all__ = ["Omission", "Omissions"]


@immutable
class Omission:
    """One thing that was left out: its line, its key, and the reason."""

    file: str
    line: int
    key: str
    why: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.key}: {self.why}"

    def as_json(self) -> dict[str, Any]:
        """Return it as a document."""
        return {"file": self.file, "line": self.line, "key": self.key, "why": self.why}


class Omissions:
    """Collects what is left out of one file, each once."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._found: dict[Omission, None] = {}

    def add(self, at: Located, key: str, why: str) -> None:
        """Leave out the value of a key."""
        self._found[Omission(self._file, at.line, key, why)] = None

    def unknown(self, value: Located, known: frozenset[str], prefix: str = "") -> None:
        """Leave out every member that nothing converts, and what should be a mapping and is none."""
        if value.value is not None and not isinstance(value.value, Mapping):
            self.add(value, prefix.rstrip("."), "it is no mapping")
        for name, member in value.mapping().items():
            if name not in known:
                self.add(member, f"{prefix}{name}", "it has no counterpart here")

    @property
    def all(self) -> tuple[Omission, ...]:
        """All of them, by line."""
        return tuple(sorted(self._found, key=lambda each: each.line))
