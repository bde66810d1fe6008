"""Parsing and planning of a pipeline IR."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING

from actors.ir.decoding import decode
from actors.ir.definition import Definition, Dependency, Plan, PlannedJob
from actors.ir.errors import IrError, shown
from actors.ir.flat import read_flat
from actors.ir.graph import read_graph
from actors.ir.ordering import topological
from actors.ir.reading import Misfit, at, members

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.ir.limits import Limits

__all__ = ["load", "parse", "plan"]

_SHAPES = {"graph": read_graph, "steps": read_flat}


def load(text: str, limits: Limits) -> Plan:
    """Return the plan of a pipeline IR: ``parse``, then ``plan``. Raises IrError for any faulty text."""
    return plan(parse(text, limits))


def parse(text: str, limits: Limits) -> Definition:
    """Return the pipeline that an IR describes, in document order (pipeline-ir.md).

    The version is checked first, because it says how to read the rest. Then the members of each object are checked in
    the order of the text, and missing members last.

    Raises:
        IrError: the first fault in document order. A cycle alone is found by ``plan``.
    """
    try:
        if len(text) > limits.max_bytes or len(text.encode(errors="replace")) > limits.max_bytes:
            raise Misfit(f"at most {limits.max_bytes} bytes")
        return _read(decode(text), limits)
    except Misfit as fault:
        raise fault.error() from None


def plan(definition: Definition) -> Plan:
    """Return the jobs in DAG creation order (pipeline-ir.md, "Plan").

    Raises:
        IrError: ``cycle``.
    """
    jobs = definition.jobs
    order = topological([job.key for job in jobs], [job.depends_on for job in jobs])
    places = {index: place for place, index in enumerate(order)}
    placed: list[PlannedJob] = []
    for index in order:
        job = _placed(jobs[index], places)
        parent = next((placed[each.position] for each in job.depends_on if each.builds_in), None)
        placed.append(job if parent is None else replace(job, image=parent.image))
    return Plan(tuple(placed), definition.timeout_seconds)


def _placed(job: PlannedJob, places: Mapping[int, int]) -> PlannedJob:
    if all(places[dependency.position] == dependency.position for dependency in job.depends_on):
        return job
    moved = [Dependency(places[old.position], old.builds_in, old.continue_on_failure) for old in job.depends_on]
    return replace(job, depends_on=tuple(sorted(moved, key=attrgetter("position"))))


def _read(document: object, limits: Limits) -> Definition:
    root = members(document)
    if root.get("version") != "0":
        got = shown(root["version"]) if "version" in root else "nothing"
        raise IrError("bad_version", f'expected version "0", got {got}')
    shapes = [name for name in root if name in _SHAPES and root[name] is not None]
    if not shapes:
        raise Misfit('"graph" or "steps"')
    if len(shapes) > 1:
        return at(shapes[1], _ambiguous, root)
    return _SHAPES[shapes[0]](root, limits)


def _ambiguous(_: object) -> Definition:
    raise Misfit('"graph" or "steps", not both')
