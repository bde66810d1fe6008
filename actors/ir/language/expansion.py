"""The cells of a job with a matrix, and its texts with their names replaced. Pure."""

from __future__ import annotations

import re
from itertools import product
from math import prod
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel

from actors.ir.language.names import has_names, replaced
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from actors.ir.language.model import Job

T = TypeVar("T")

MOST_COMBINATIONS = 10_000
"""The most combinations of the axes of all jobs together, before any are left out."""

_NOT_IN_KEYS = re.compile(r"[^A-Za-z0-9._+-]+")


@immutable
class Cell:
    """One job of a matrix, or the only one of a job without: suffixes of key and name, and its values."""

    key: str = ""
    name: str = ""
    values: Mapping[str, str] | None = None

    @property
    def names(self) -> dict[str, str]:
        """The names in texts that it gives a value."""
        return {f"matrix.{axis}": value for axis, value in (self.values or {}).items()}


def matrix_values(job: Job) -> list[str]:
    """Return the names that a job's matrix gives its texts."""
    return [] if job.matrix is None else [f"matrix.{axis}" for axis in job.matrix.axes]


def combinations_of(job: Job) -> int:
    """Count the combinations of a job's axes."""
    return 1 if job.matrix is None else prod(map(len, job.matrix.axes.values()))


def cells_of(job: Job) -> list[Cell]:
    """Return the cells of a job in the order of its axes: one for a job without a matrix."""
    if job.matrix is None:
        return [Cell()]
    return list(_cells(job)) if job.matrix.axes else []


def _cells(job: Job) -> Iterator[Cell]:
    assert job.matrix is not None  # noqa: S101 - asked before
    axes, excluded = job.matrix.axes, job.matrix.exclude
    for values in product(*axes.values()):
        cell = dict(zip(axes, values, strict=True))
        if not any(each.items() <= cell.items() for each in excluded):
            suffix = "-".join(_NOT_IN_KEYS.sub("-", value).strip("-") or "none" for value in values)
            yield Cell(f"-{suffix}", f" ({', '.join(values)})", cell)


class Template:
    """A job with names in its texts, which are replaced for each of its cells."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._fields = [name for name in job.model_fields_set if _has_names(getattr(job, name))]

    def with_names(self, names: Mapping[str, str]) -> Job:
        """Return the job with its names replaced, all of which are known."""
        if not self._fields:
            return self._job
        return self._job.model_copy(update={name: with_names(getattr(self._job, name), names) for name in self._fields})


def _has_names(value: object) -> bool:
    match value:
        case str():
            return has_names(value)
        case list():
            return any(map(_has_names, value))
        case dict():
            return any(map(_has_names, value.values()))
        case BaseModel():
            return any(_has_names(getattr(value, name)) for name in value.model_fields_set)
        case _:
            return False


def with_names(value: T, names: Mapping[str, str]) -> T:
    """Return a part of the model with the names in its texts replaced."""
    match value:
        case str():
            return replaced(value, names)  # type: ignore[return-value] # a text stays one
        case list():
            return [with_names(each, names) for each in value]  # type: ignore[return-value] # a list stays one
        case dict():
            return {key: with_names(each, names) for key, each in value.items()}  # type: ignore[return-value] # the same
        case BaseModel():
            fields = {name: with_names(getattr(value, name), names) for name in value.model_fields_set}
            return value.model_copy(update=fields)
        case _:
            return value
