"""Jobs of the language, as plain mappings of its keys, which files of other systems become. Pure."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from actors.ir.decoding import IrError
from actors.ir.planning import load
from actors.ir.settings import IrSettings
from actors.ir.systems.jobs import in_order, label
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from actors.ir.systems.omissions import Omission

Members: TypeAlias = "Mapping[str, Any]"
"""The keys of a job in the language, with their values."""

_ORDER = (
    *(
        "name",
        "image",
        "from",
        "needs",
        "files",
        "when",
        "matrix",
        "services",
        "env",
        "secrets",
        "keep",
        "working_directory",
        "shell",
        "workspace",
        "entrypoint",
        "run",
    ),
    *("artifacts", "timeout", "retry", "soft_fail"),
)
_MAX_KEY = 120
_MOST_EXCLUDED = 16


@immutable
class Cell:
    """One of the jobs that a job of another system stands for: the values of its matrix, and its keys."""

    values: Mapping[str, str]
    members: Members


@immutable
class Job:
    """A job of another system: its cells, what it needs, and what is said of it as a whole.

    ``pattern`` has the keys with names of the matrix in place of values, if that can be. It starts from the disk of
    ``parent``. Of the jobs in ``files``, which it needs, it takes what globs select of their artifacts. It has the
    outputs of those in ``outputs_of``, so that it needs them itself, and not through others alone.
    """

    name: str
    cells: tuple[Cell, ...]
    needs: tuple[str, ...] = ()
    pattern: Members | None = None
    parent: str | None = None
    when: Members = field(default_factory=dict)
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    outputs_of: tuple[str, ...] = ()

    @property
    def may_pass_over(self) -> bool:
        """Tell whether what needs it may run although what it needs itself has failed."""
        return bool(self.when) or any("soft_fail" in each.members for each in self.cells)


@immutable
class ConvertedPipeline:
    """A pipeline of the language, and what it differs in from the file that it was made of."""

    slug: str
    jobs: tuple[Job, ...]
    of: str = ""
    """The name of the file, or of the last of several, that it is of."""

    name: str | None = None
    on: Members = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    defaults: Members = field(default_factory=dict)
    notes: tuple[Omission, ...] = ()

    def written_jobs(self) -> tuple[tuple[str, dict[str, Any], tuple[Omission, ...]], ...]:
        """Return the jobs of the language: their keys, what stands there, and the notes about them."""
        found = []
        told: set[str] = set()
        for key, members, name in _Writing(self.jobs).jobs():
            notes = () if name in told else tuple(each for each in self.notes if each.job == name)
            told.add(name)
            found.append((key, members, notes))
        return tuple(found)

    @property
    def document(self) -> dict[str, Any]:
        """The whole as a document of version "1"."""
        head = {"name": self.name, "on": dict(self.on), "env": dict(self.env), "defaults": dict(self.defaults)}
        jobs = {key: members for key, members, _ in self.written_jobs()}
        return {name: value for name, value in head.items() if value} | {"jobs": jobs}


class _Writing:
    """The jobs of one pipeline on their way to the language."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = {job.name: job for job in jobs}
        self._keys: dict[str, list[str]] = {}
        """The keys of each job's cells; one if it is written with its matrix."""
        self._taken: set[str] = set()
        self._behind: dict[str, frozenset[str]] = {}
        for name in in_order({job.name: job.needs for job in jobs}):
            needs = self._jobs[name].needs
            behind = (self._behind[each] for each in needs if not self._jobs[each].may_pass_over)
            self._behind[name] = frozenset(needs).union(*behind)

    def jobs(self) -> Iterator[tuple[str, dict[str, Any], str]]:
        """Yield the jobs of the language: key, what stands there, and the name of the job that it is of."""
        written: dict[str, list[tuple[str, Members]]] = {}
        for name, job in self._jobs.items():
            whole = _with_matrix(job)
            found = [("", job.cells[0].members)] if len(job.cells) == 1 else [("", whole)] if whole else None
            if found is None:
                found = [(f"-{'-'.join(cell.values.values())}", cell.members) for cell in job.cells]
            written[name] = [(self._key(f"{label(name)[:_MAX_KEY]}{suffix}"), members) for suffix, members in found]
        self._keys = {name: [key for key, _ in found] for name, found in written.items()}
        for name, found in written.items():
            for key, members in found:
                yield key, self._whole(key, self._jobs[name], members), name

    def _key(self, text: str) -> str:
        text = label(text) or "job"
        numbered = (text if number == 1 else f"{text}-{number}" for number in itertools.count(1))
        key = next(each for each in numbered if each not in self._taken)
        self._taken.add(key)
        return key

    def _whole(self, key: str, job: Job, members: Members) -> dict[str, Any]:
        whole = {name: value for name, value in members.items() if value not in (None, {}, [], ())}
        if whole.get("name") == key:
            del whole["name"]
        if job.parent is not None:
            (whole["from"],) = self._keys[job.parent]
            whole.pop("image", None)
        behind = frozenset[str]().union(
            *(self._behind[each] for each in job.needs if not self._jobs[each].may_pass_over)
        )
        given = {job.parent, *job.files}
        passed_over = behind - set(job.outputs_of)
        kept = dict.fromkeys(each for each in job.needs if each not in given and each not in passed_over)
        needs = [each for name in kept for each in self._keys[name]]
        if "status" in job.when:  # it runs whatever came of them, so that each is waited for
            needs = [each for name in dict.fromkeys(job.needs) if name not in given for each in self._keys[name]]
        if needs:
            whole["needs"] = needs
        if job.files:
            whole["files"] = {each: list(globs) for name, globs in job.files.items() for each in self._keys[name]}
        if job.when:
            whole["when"] = dict(job.when)
        return {name: whole[name] for name in _ORDER if name in whole}


def _with_matrix(job: Job) -> Members | None:
    """Return the keys of a job with its matrix; None if they would not say the same as its cells."""
    if job.pattern is None or len(job.cells) == 1:
        return None
    axes = {axis: list(dict.fromkeys(cell.values[axis] for cell in job.cells)) for axis in job.cells[0].values}
    if math.prod(map(len, axes.values())) - len(job.cells) > _MOST_EXCLUDED:
        return None
    given = [dict(cell.values) for cell in job.cells]
    combinations = (dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()))
    excluded = [each for each in combinations if each not in given]
    whole = {**job.pattern, "matrix": {**axes, **({"exclude": excluded} if excluded else {})}}
    alone = {str(number): dict(cell.members) for number, cell in enumerate(job.cells)}
    return whole if _same({"job": whole}, alone) else None


def _same(jobs: Mapping[str, Members], others: Mapping[str, Members]) -> bool:
    """Tell whether jobs are the same to the service, but for their keys and their order."""
    try:
        both = [
            [
                replace(each, step_key="", matrix_job=None, matrix=None)
                for each in load(json.dumps(_complete(given)), IrSettings()).jobs
            ]
            for given in (jobs, others)
        ]
    except IrError:
        return False
    return len(both[0]) == len(both[1]) and all(each in both[1] for each in both[0])


def _complete(jobs: Mapping[str, Members]) -> dict[str, Any]:
    given = {
        key: {name: value for name, value in members.items() if value not in (None, {}, [], ())}
        for key, members in jobs.items()
    }
    return {"version": "1", "jobs": given}


def texts_of(value: object) -> Iterator[str]:
    """Yield all texts in the keys of a job."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from texts_of(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from texts_of(each)
