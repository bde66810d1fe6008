"""Pipelines in YAML as their plans and mistakes, for the tests of `actors.ir.language`."""

from __future__ import annotations

import json
from textwrap import dedent
from typing import Any

from actors.ir import Built, FileInvalid, IrSettings, PipelineFile, Plan, load
from storage import NewJob

NOW = 1767225600.0


def declared(text: str, files: dict[str, str] | None = None, now: float = NOW) -> dict[str, Any]:
    """Return a file's entry in the envelope; ``files`` are digests of the repository's files."""
    return PipelineFile.parse(".hm/ci.yml", dedent(text)).declared(files or {}, now)


def plan(
    text: str, files: dict[str, str] | None = None, limits: IrSettings | None = None, built: Built | None = None
) -> Plan:
    """Return the plan of a file for a build, through the JSON of its document."""
    return load(json.dumps(declared(text, files)["definition"]), limits or IrSettings(), built)


def job(text: str) -> NewJob:
    """Return the job of a file that has one, named ``a``, by the keys below it."""
    (found,) = plan(f"jobs: {{a: {{{text}}}}}").jobs
    return found


def mistakes(text: str) -> list[str]:
    """Return the mistakes of a file, each with line and column."""
    try:
        declared(text)
    except FileInvalid as error:
        return [str(each).removeprefix(".hm/ci.yml:") for each in error.mistakes]
    return []


def needs(found: Plan) -> dict[str, list[str]]:
    """Return what each job of a plan depends on; ``<`` marks the disk that it starts from."""
    keys = [each.step_key for each in found.jobs]
    return {
        each.step_key: [
            f"{'<' if before.kind == 'builds_in' else ''}{keys[before.position]}" for before in each.depends_on
        ]
        for each in found.jobs
    }
