"""Changed files, and whether they concern a pipeline. Pure (pipeline-ir.md, "runner_args")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.ir.globs import Globs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from actors.ir.definition import Plan

__all__ = ["concerns"]

_NOT = "!"


def concerns(plan: Plan, changed: Collection[str] | None) -> bool:
    """Tell whether changed files concern a pipeline, by the ``paths`` of its steps.

    They do if a step's globs match one of them, or if no step has globs. ``changed`` is None if it is not known.
    """
    given = [job.paths for job in plan.jobs if job.paths is not None]
    return changed is None or not given or any(_match_one(globs, changed) for globs in given)


def _match_one(globs: Iterable[str], changed: Collection[str]) -> bool:
    """Tell whether the globs match a file. Those that begin with ``!`` exclude, alone from all files."""
    globs = tuple(globs)
    excluded = Globs(glob.removeprefix(_NOT) for glob in globs if glob.startswith(_NOT))
    included = [glob for glob in globs if not glob.startswith(_NOT)]
    matching = Globs(included or ("**",) * bool(globs))
    return any(matching.match(path) and not excluded.match(path) for path in changed)
