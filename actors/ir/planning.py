"""Parsing and planning of a pipeline IR."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING

from actors.ir.decoding import IrError, decode, quoted
from actors.ir.flat import read_flat
from actors.ir.graph import read_graph
from actors.ir.ordering import Definition, Plan, topological
from actors.ir.readers import InvalidValue, at, members
from actors.ir.unknown_keys import unknown_keys
from storage import BuildErrorCode, EdgeKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.ir.settings import IrSettings
    from storage import NewJob

_SHAPES = {"graph": read_graph, "steps": read_flat}


def load(text: str, limits: IrSettings) -> Plan:
    """Return the plan of a pipeline IR: ``parse``, then ``plan``. Raises IrError for any faulty text."""
    return plan(parse(text, limits))


def parse(text: str, limits: IrSettings) -> Definition:
    """Return the pipeline that an IR describes, in document order (pipeline-ir.md, "Validation").

    The version is checked first, because it says how to read the rest. Then the members of each object are checked in
    the order of the text, and missing members last.

    Raises:
        IrError: the first fault in document order, with all others.
    """
    try:
        if len(text) > limits.max_bytes or len(text.encode(errors="replace")) > limits.max_bytes:
            raise InvalidValue(f"at most {limits.max_bytes} bytes")
        return _read(decode(text), limits)
    except InvalidValue as fault:
        raise fault.error() from None


def plan(definition: Definition) -> Plan:
    """Return the jobs in DAG creation order (pipeline-ir.md, "Plan").

    Raises:
        IrError: ``cycle``.
    """
    jobs = definition.jobs
    order = topological([job.step_key for job in jobs], [job.depends_on for job in jobs])
    places = {index: place for place, index in enumerate(order)}
    placed: list[NewJob] = []
    for index in order:
        job = _placed(jobs[index], places)
        parent = next((placed[each.position] for each in job.depends_on if each.kind is EdgeKind.BUILDS_IN), None)
        placed.append(job if parent is None else replace(job, image=parent.image))
    return Plan(tuple(placed), definition.timeout_seconds, definition.unknown_keys)


def _placed(job: NewJob, places: Mapping[int, int]) -> NewJob:
    if all(places[dependency.position] == dependency.position for dependency in job.depends_on):
        return job
    moved = [old._replace(position=places[old.position]) for old in job.depends_on]
    return replace(job, depends_on=tuple(sorted(moved, key=attrgetter("position"))))


def _read(document: object, limits: IrSettings) -> Definition:
    root = members(document)
    if root.get("version") != "0":
        got = quoted(root["version"]) if "version" in root else "nothing"
        raise IrError(BuildErrorCode.BAD_VERSION, f'expected version "0", got {got}')
    shapes = [name for name in root if name in _SHAPES and root[name] is not None]
    if not shapes:
        raise InvalidValue('"graph" or "steps"')
    if len(shapes) > 1:
        return at(shapes[1], _ambiguous, root)
    return replace(_SHAPES[shapes[0]](root, limits), unknown_keys=unknown_keys(root))


def _ambiguous(_: object) -> Definition:
    raise InvalidValue('"graph" or "steps", not both')
