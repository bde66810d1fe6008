"""Conditions of jobs: whether a job runs in a build, or the reason why not. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from actors.ir.decoding import quoted
from actors.ir.triggers import can_be_matched, concerned_by
from storage import glob_matches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from actors.ir.built import Built
    from actors.ir.language.model import Condition


def matchable(built: Built | None, conditions: Iterable[Condition | None]) -> Built | None:
    """Return what is built; without its changed files if to match them all would take too long."""
    if built is None or built.changed is None:
        return built
    globs = (glob for condition in conditions for glob in _paths_of(condition))
    return built if can_be_matched(globs, built.changed) else replace(built, changed=None)


def _paths_of(condition: Condition | None) -> Iterator[str]:
    if condition is not None:
        yield from condition.paths or ()
        yield from _paths_of(condition.not_)


def unmet(
    condition: Condition | None, built: Built | None, cell: Mapping[str, str], *, turned: bool = False
) -> str | None:
    """Return why a condition does not hold for a build and the values of a cell; None if it holds.

    If it is not known what is built, all holds that does not ask about the cell. If it is not known which files have
    changed, ``paths`` are what lets the job run: they hold unless the condition is ``turned`` round by a ``not``.
    """
    return None if condition is None else next(_unmet(condition, built, cell, turned=turned), None)


def _unmet(condition: Condition, built: Built | None, cell: Mapping[str, str], *, turned: bool) -> Iterator[str]:
    for axis, values in (condition.matrix or {}).items():
        if cell.get(axis) not in values:
            yield f"{axis} is {quoted(cell.get(axis, ''))}, and it runs for {_listed(values)}"
    if built is None:
        return
    yield from _unmet_texts(condition, built)
    if condition.fork is not None and condition.fork is not built.fork:
        yield "it runs for forks alone" if condition.fork else "it does not run for forks"
    if condition.paths is not None and not _concerned(condition.paths, built, turned=turned):
        yield f"no file has changed that matches {_listed(condition.paths)}"
    if condition.not_ is not None and unmet(condition.not_, built, cell, turned=not turned) is None:
        yield 'all of its "not" holds'


def _concerned(globs: Sequence[str], built: Built, *, turned: bool) -> bool:
    return not turned if built.changed is None else concerned_by(globs, built.changed)


def _unmet_texts(condition: Condition, built: Built) -> Iterator[str]:
    """Yield what does not hold of texts, in the order of the keys."""
    branch = "" if built.tag else built.branch
    if condition.branch is not None and not (branch and _any(condition.branch, branch)):
        yield f"the branch is {quoted(branch) if branch else 'none'}, and it runs for {_listed(condition.branch)}"
    if condition.tag is not None and not (built.tag and _any(condition.tag, built.tag)):
        yield f"the tag is {quoted(built.tag) if built.tag else 'none'}, and it runs for {_listed(condition.tag)}"
    if condition.event is not None and built.event not in condition.event:
        yield f"the event is {quoted(built.event)}, and it runs for {_listed(condition.event)}"
    for name, values in (condition.inputs or {}).items():
        if built.inputs.get(name, "") not in values:
            yield f"the input {name} is {quoted(built.inputs.get(name, ''))}, and it runs for {_listed(values)}"
    if condition.repository is not None and not _any(condition.repository, built.repository):
        yield f"the repository is {quoted(built.repository)}, and it runs for {_listed(condition.repository)}"
    if condition.target_branch is not None:
        target = built.target_branch
        if not target or not _any(condition.target_branch, target):
            found = quoted(target) if target else "none"
            yield f"the target branch is {found}, and it runs for {_listed(condition.target_branch)}"


def _any(globs: Sequence[str], name: str) -> bool:
    return any(glob_matches(glob, name) for glob in globs)


def _listed(values: Sequence[str]) -> str:
    return " or ".join(map(quoted, values))
