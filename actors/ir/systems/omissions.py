"""The parts of a file that are not converted, or not exactly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from storage import immutable

if TYPE_CHECKING:
    from actors.ir.systems.located import Located


@immutable
class Omission:
    """One thing that was left out or differs: its line, its key, and the loss with its counterpart here."""

    file: str
    line: int
    key: str
    why: str
    job: str | None = None
    """The job that is kept, and differs in this."""

    is_loss: bool = False
    """True if something does not run for it, or may come to another end."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.key}: {self.why}"

    @property
    def comment(self) -> str:
        """The same for a file of the repository, where no path of this host belongs."""
        return f"{self.file.rpartition('/')[2]}:{self.line}: {self.key}: {self.why}"

    def as_json(self) -> dict[str, Any]:
        """Return it as a document."""
        return {"file": self.file, "line": self.line, "key": self.key, "why": self.why, "loss": self.is_loss}


class LeftOut(Exception):
    """A whole job is left out, since it would be changed in meaning.

    It has the value and key that are at fault, and why.
    """

    def __init__(self, at: Located, key: str, why: str) -> None:
        super().__init__(why)
        self.at = at
        self.key = key
        self.why = why


class Omissions:
    """Collects what is left out of one file, each once."""

    def __init__(self, file: str, job: str | None = None) -> None:
        self._file = file
        self._job = job
        self._found: dict[Omission, None] = {}

    def add(self, at: Located, key: str, why: str) -> None:
        """Leave out the value of a key, without which the same runs."""
        self._found[Omission(at.file or self._file, at.line, key, why, self._job)] = None

    def lose(self, at: Located, key: str, why: str) -> None:
        """Leave out the value of a key, without which less runs, or perhaps to another end."""
        self._found[Omission(at.file or self._file, at.line, key, why, self._job, is_loss=True)] = None

    def add_job(self, left_out: LeftOut) -> None:
        """Leave out a whole job."""
        self.lose(left_out.at, left_out.key, f"the whole job is left out: {left_out.why}")

    def of_a_part(self, job: str | None = None) -> Omissions:
        """Return a collection for one job of the file, which `take` adds if the job is kept."""
        return Omissions(self._file, job)

    def take(self, other: Omissions) -> None:
        """Add all of another collection."""
        self._found |= other._found

    def unknown(self, value: Located, known: frozenset[str], prefix: str = "") -> None:
        """Leave out every member that nothing converts, and what should be a mapping and is none."""
        if value.value is not None and not isinstance(value.value, Mapping):
            self.add(value, prefix.rstrip("."), "it is no mapping")
        for name, member in value.mapping().items():
            if name not in known:
                self.add(member, f"{prefix}{name}", "it has no counterpart here")

    def told(self, value: Located, notes: Mapping[str, str], prefix: str) -> None:
        """Tell the loss of members that a job can do without."""
        for name, why in notes.items():
            if (member := value.get(name)).value is not None:
                self.add(member, f"{prefix}{name}", why)

    @property
    def all(self) -> tuple[Omission, ...]:
        """All of them, by file and line."""
        return tuple(sorted(self._found, key=lambda each: (each.file, each.line)))


def only(value: Located, known: frozenset[str], key: str) -> None:
    """Raise LeftOut at the first member that is not known, or if the value is no mapping."""
    if value.value is not None and not isinstance(value.value, Mapping):
        raise LeftOut(value, key, "it is no mapping")
    for name, member in value.mapping().items():
        if name not in known:
            raise LeftOut(member, f"{key}.{name}", f"{name} has no counterpart here")


class UnknownExpression(Exception):
    """An expression of GitHub's that cannot be converted with certainty."""
