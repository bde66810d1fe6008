"""Drafts of pipelines as the language has them: keys at the top, and jobs. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ci_daemon.draft.model import DraftCache, DraftPipeline, DraftStep

_NOT_IN_KEYS = re.compile(r"[^a-z0-9]+")
_MINUTE, _HOUR = 60, 3600
_STRICT = "set -e\n"
"""The beginning of commands in the DSL, which jobs of the language do not need."""

_QUIET = {"DEBIAN_FRONTEND": "noninteractive"}
"""The variable that lets packages of Debian ask nothing."""


def contents(pipeline: DraftPipeline) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the keys of a pipeline besides its jobs, and the jobs, each after what it starts from."""
    keys, steps = _keys(pipeline), _steps_of(pipeline)
    head: dict[str, Any] = {}
    if any("apt-get" in step.command for step in steps):
        head["env"] = _QUIET
    if pipeline.timeout_seconds is not None:
        head["timeout"] = _duration(pipeline.timeout_seconds)
    needs = dict(_needs(pipeline, keys))
    return head, {keys[id(step)]: _job(step, keys, needs.get(id(step), [])) for step in steps}


def _steps_of(pipeline: DraftPipeline) -> list[DraftStep]:
    """Return all steps, each after its parent."""
    ordered: dict[int, DraftStep] = {}
    for stage in pipeline.stages:
        for step in stage:
            chain = [step]
            while (parent := chain[-1].parent) is not None:
                chain.append(parent)
            ordered |= {id(each): each for each in reversed(chain) if id(each) not in ordered}
    return list(ordered.values())


def _duration(seconds: int) -> str:
    """Return a duration in the largest unit that divides it."""
    for unit, name in ((_HOUR, "h"), (_MINUTE, "m")):
        if seconds % unit == 0:
            return f"{seconds // unit}{name}"
    return f"{seconds}s"


def _keys(pipeline: DraftPipeline) -> dict[int, str]:
    """Return a key for each step, which resembles its label."""
    found: dict[int, str] = {}
    for step in _steps_of(pipeline):
        key = name = _NOT_IN_KEYS.sub("-", step.label.lower()).strip("-") or "job"
        number = 1
        while key in found.values():
            number += 1
            key = f"{name}-{number}"
        found[id(step)] = key
    return found


def _needs(pipeline: DraftPipeline, keys: Mapping[int, str]) -> Iterator[tuple[int, list[str]]]:
    """Yield for each step of a stage the keys of the stage before."""
    for before, stage in zip(pipeline.stages, pipeline.stages[1:], strict=False):
        for step in stage:
            yield id(step), [keys[id(each)] for each in before if each is not step.parent]


def _job(step: DraftStep, keys: Mapping[int, str], needs: list[str]) -> dict[str, Any]:
    key = keys[id(step)]
    job: dict[str, Any] = {"name": step.label} if step.label.lower() != key else {}
    if step.parent is not None:
        job["from"] = keys[id(step.parent)]
    elif step.image is not None:
        job["image"] = step.image
    if needs:
        job["needs"] = needs
    if step.env:
        job["env"] = dict(step.env)
    if step.cache is not None:
        job["cache"] = _cache(step.cache)
    return {**job, "run": step.command.removeprefix(_STRICT)}


def _cache(cache: DraftCache) -> object:
    if cache.daily:
        return {"days": 1}
    return {"files": list(cache.files)} if cache.files else True
