"""The chains of jobs that share a workspace, through what they need. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.ir.decoding import Fault, quoted
from actors.ir.language.expansion import cells_of
from storage import BuildErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from actors.ir.language.model import Job


class Workspaces:
    """The jobs whose workspaces others take; jobs come in an order in which each is after what it needs.

    The workspace of a job that starts from a disk is that of the disk. Another one that shares takes that of the job in
    its ``needs`` that says the same; of several, of the one whose workspace has been through all the others.
    ``jobs`` have the defaults of their pipeline.
    """

    def __init__(self, jobs: Mapping[str, Job], order: Iterable[str]) -> None:
        self._jobs = jobs
        self._before: dict[str, str] = {}
        self._taken: dict[str, str] = {}
        self._disputed: dict[str, list[str]] = {}
        self._depth: dict[str, int] = {}
        for key in order:
            self._add(key, jobs[key])

    def _add(self, key: str, job: Job) -> None:
        before = job.from_
        if before is None and job.workspace is not None:
            known = [each for each in dict.fromkeys(job.needs or ()) if each in self._depth]
            shared = [each for each in known if self._jobs[each].workspace == job.workspace]
            before = max(shared, key=lambda each: self._depth[each], default=None)
            if before is not None:
                if len(shared) > 1 and not set(self._chain(before)).issuperset(shared):
                    self._disputed[key] = shared
                self._taken[key] = before
        if before is not None and before in self._depth:
            self._before[key] = before
        self._depth[key] = self._depth.get(before or "", 0) + 1

    def _chain(self, key: str) -> Iterator[str]:
        at: str | None = key
        while at is not None:
            yield at
            at = self._before.get(at)

    def taken_by(self, key: str) -> Iterator[str]:
        """Yield the job whose workspace a job takes, then those whose it is if the one before is skipped."""
        if key in self._taken:
            yield from self._chain(self._taken[key])

    def faults(self) -> Iterator[Fault]:
        """Yield what cannot be: two workspaces for one job, or one that is not there after a hit in the cache."""
        for key, names in self._disputed.items():
            words = " and ".join(map(quoted, names))
            message = f"it would have the workspaces of {words}: a job takes one, and `files` of the others"
            yield _fault(message, key, "workspace")
        several = {each for each in set(self._taken.values()) if len(cells_of(self._jobs[each])) > 1}
        for key, taken in self._taken.items():
            if taken in several:
                message = f"{quoted(taken)} has a matrix, and so several workspaces: a job takes one"
                yield _fault(message, key, "workspace")
        for taken in dict.fromkeys(self._taken.values()):
            if self._jobs[taken].cache is not None:
                key = next(each for each, of in self._taken.items() if of == taken)
                message = f"{quoted(key)} takes its workspace, which a hit in the cache would not leave: cache the last"
                yield _fault(message, taken, "cache")


def _fault(message: str, job: str, key: str) -> Fault:
    return Fault(BuildErrorCode.INVALID_IR, message, ("jobs", job, key))
