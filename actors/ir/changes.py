"""Changed files, and whether they concern a pipeline. Pure (pipeline-ir.md, "runner_args")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.ir.globs import Globs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from actors.ir.definition import Plan

_NOT = "!"
_MOST_STEPS = 200_000_000


def concerns(plan: Plan, changed: Collection[str] | None) -> bool:
    """Tell whether changed files concern a pipeline, by the ``paths`` of its steps.

    They do if a step's globs match one of them, or if no step has globs. ``changed`` is None if it is not known. With
    very many globs and files they do, because nobody should wait for the answer.
    """
    given = [job.paths for job in plan.jobs if job.paths is not None]
    if changed is not None and _parts(each for globs in given for each in globs) * _parts(changed) > _MOST_STEPS:
        return True
    return changed is None or not given or any(_match_one(globs, changed) for globs in given)


def _match_one(globs: Iterable[str], changed: Collection[str]) -> bool:
    """Tell whether the globs match a file. Those that begin with ``!`` exclude, alone from all files."""
    globs = tuple(globs)
    excluded = Globs(glob.removeprefix(_NOT) for glob in globs if glob.startswith(_NOT))
    included = [glob for glob in globs if not glob.startswith(_NOT)]
    matching = Globs(included or ("**",) * bool(globs))
    return any(matching.match(path) and not excluded.match(path) for path in changed)


def _parts(paths: Iterable[str]) -> int:
    """Count the folders and files that paths or globs name."""
    return sum(each.count("/") + 1 for each in paths)
