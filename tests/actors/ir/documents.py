"""Small pipeline documents, and plans as readable lines, for the tests of `actors.ir`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.ir import IrError, IrSettings, Plan, load
from storage import EdgeKind

LIMITS = IrSettings()


def node(key: str, cmd: str = "true", env: dict[str, str] | None = None, **step: Any) -> dict[str, Any]:
    return {"step": {"key": key, "cmd": cmd, **step}, "env": env or {}}


def graph(*nodes: Any, edges: Any = (), **members: Any) -> dict[str, Any]:
    return {
        "version": "0",
        "graph": {"nodes": list(nodes), "node_holes": [], "edge_property": "directed", "edges": list(edges)},
        **members,
    }


def command(key: str, cmd: str = "true", **members: Any) -> dict[str, Any]:
    return {"type": "command", "key": key, "cmd": cmd, **members}


def wait(*, continue_on_failure: Any = None) -> dict[str, Any]:
    if continue_on_failure is None:
        return {"type": "wait"}
    return {"type": "wait", "continue_on_failure": continue_on_failure}


def flat(*steps: Any, **members: Any) -> dict[str, Any]:
    return {"version": "0", **members, "steps": list(steps)}


def planned(document: object, limits: IrSettings = LIMITS) -> Plan:
    return load(json.dumps(document), limits)


def refusal(document: object, limits: IrSettings = LIMITS) -> tuple[str, str]:
    """Return the code and message with which a document, or a text, is refused."""
    text = document if isinstance(document, str) else json.dumps(document)
    with pytest.raises(IrError) as caught:
        load(text, limits)
    assert str(caught.value) == caught.value.message
    return caught.value.code, caught.value.message


def lines(plan: Plan) -> list[str]:
    """Return one line for each job: key, name, image, and the jobs that it waits for.

    After a job's key, ``*`` stands for builds_in and ``?`` for continue_on_failure; ``-`` is an empty column.
    """
    return [
        f"{job.step_key} | {job.name} | {job.image or '-'} | "
        + (
            " ".join(
                plan.jobs[dependency.position].step_key
                + "*" * (dependency.kind is EdgeKind.BUILDS_IN)
                + "?" * dependency.continue_on_failure
                for dependency in job.depends_on
            )
            or "-"
        )
        for job in plan.jobs
    ]


def dependencies(plan: Plan) -> dict[str, str]:
    """Return the last column of `lines` by key."""
    return {job.step_key: line.rsplit(" | ", 1)[1] for job, line in zip(plan.jobs, lines(plan), strict=True)}
