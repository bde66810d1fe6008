"""The pipelines of a project's files, checked as the service checks them."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from actors.ir import IrError, IrSettings, load
from ci_daemon.convert.github import convert_github
from ci_daemon.convert.gitlab import convert_gitlab
from ci_daemon.convert.kinds import Kind, kind_of
from ci_daemon.convert.located import NotReadable
from ci_daemon.convert.omissions import Omission, Omissions
from ci_daemon.convert.sources import read_file
from ci_daemon.draft import command_of, steps_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ci_daemon.convert.sources import Project
    from ci_daemon.draft import DraftPipeline

_MAX_SECONDS_NAME = 63


def converted(project: Project) -> tuple[list[DraftPipeline], list[Omission]]:
    """Return the pipelines of a project's files, and what is left out of them.

    Raises NotReadable if a file cannot be read, is another system's, or makes a pipeline that the service refuses.
    """
    pipelines: list[DraftPipeline] = []
    omissions: list[Omission] = []
    for file in project.files:
        try:
            found, left_out = _of_file(project, file)
            for each in found:
                check(each)
        except NotReadable as error:
            message = f"{file}: {error}"
            raise NotReadable(message) from error
        omissions += _told_of_other_folders(project, file)
        pipelines += [replace(each, slug=_unused(each.slug, pipelines)) for each in found]
        omissions += left_out
    return pipelines, omissions


def _told_of_other_folders(project: Project, file: Path) -> list[Omission]:
    """Note that files of several systems, which may do the same, are pipelines side by side."""
    if file.parent == project.files[0].parent:
        return []
    why = f"{project.files[0]} is converted, too: what both do runs twice here, so remove one of the pipelines"
    return [Omission(str(file), 1, file.parent.parent.name, why)]


def _of_file(project: Project, file: Path) -> tuple[tuple[DraftPipeline, ...], tuple[Omission, ...]]:
    document = read_file(file)
    omissions = Omissions(str(file))
    if kind_of(document) is Kind.WORKFLOW:
        return convert_github(document, file.stem, omissions), omissions.all
    return convert_gitlab(document, omissions, project.included), omissions.all


def _unused(slug: str, pipelines: Sequence[DraftPipeline]) -> str:
    """Return a slug that none of the pipelines has."""
    taken = {each.slug for each in pipelines}
    numbered = (slug if number == 1 else f"{slug[: _MAX_SECONDS_NAME - 5]}-{number}" for number in itertools.count(1))
    return next(each for each in numbered if each not in taken)


def check(pipeline: DraftPipeline) -> None:
    """Raise NotReadable if the service would refuse a pipeline, as over a limit."""
    try:
        load(json.dumps(_ir(pipeline)), IrSettings())
    except IrError as error:
        message = f"the pipeline of it would be refused: {error.faults[0].message}"
        raise NotReadable(message) from error


def _ir(pipeline: DraftPipeline) -> dict[str, Any]:
    """Return a pipeline as the v0 IR, with the steps in their order, but not what they wait for."""
    steps = []
    for place, step in enumerate(steps_of(pipeline)):
        members = {
            "type": "command",
            "key": str(place),
            "cmd": command_of(step),
            "label": step.label,
            "image": step.image,
            "env": dict(step.env),
            "timeout_seconds": step.timeout_seconds,
            "runner_args": dict(step.runner_args),
        }
        steps.append({name: member for name, member in members.items() if member is not None})
    return {"version": "0", "env": dict(pipeline.env), "steps": steps}
