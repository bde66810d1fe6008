"""The steps of pipelines as rows, and as graphs for Graphviz and Mermaid. Pure."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, Any

from ci_daemon.lint.report import parent_of
from storage import EdgeKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ci_daemon.lint.report import LintedPipeline
    from storage import NewJob

_NOT_CACHED = "none"


def step_rows(pipeline: LintedPipeline) -> list[dict[str, Any]]:
    """Return a row for each step; a step that builds in another stands below it, indented.

    If a condition skips one, the rows say why.
    """
    jobs = () if pipeline.plan is None else pipeline.plan.jobs
    rows: list[dict[str, Any]] = []

    def add(job: NewJob, depth: int) -> None:
        waits = [each for each in job.depends_on if each.kind is EdgeKind.DEPENDS_ON]
        rows.append(
            {
                "step": f"{'  ' * depth}{job.step_key}",
                "name": "" if job.name == job.step_key else job.name,
                "starts_from": (job.image or "the default image") if depth == 0 else "its parent's disk",
                "waits_for": [jobs[each.position].step_key for each in waits],
                "cache": "" if job.cache_policy == _NOT_CACHED else job.cache_policy,
                **({"skipped": job.skipped or ""} if any(each.skipped for each in jobs) else {}),
            }
        )
        for child in jobs:
            if parent_of(child, jobs) is job:
                add(child, depth + 1)

    for job in jobs:
        if parent_of(job, jobs) is None:
            add(job, 0)
    return rows


def triggers_in_words(triggers: Iterable[Any]) -> str:
    """Return the events for which a pipeline is built."""
    return "; ".join(map(_in_words, triggers)) or "by hand, by schedules and by the API"


def _in_words(trigger: Any) -> str:  # noqa: ANN401 - a repository declares it
    match trigger:
        case {"paths": list(paths), **rest}:
            return f"{_in_words(rest)} that changes {', '.join(map(str, paths))}"
        case {"event": "push", "branches": ["*"]}:
            return "a push to any branch"
        case {"event": "pull_request", "branches": list(names), **rest} if "types" not in rest:
            return f"a pull request to {', '.join(map(str, names))}"
        case {"event": "pull_request", **rest} if "types" not in rest:
            return "a pull request"
        case {"event": "push", "tags": list(names)}:
            return f"a push of the tags {', '.join(map(str, names))}"
        case {"event": "push", "branches": list(names)}:
            return f"a push to {', '.join(map(str, names))}"
        case {"event": "push"}:
            return "any push"
        case {"event": "pull_request", "types": list(types), **rest}:
            to = rest.get("branches")
            target = f" to {', '.join(map(str, to))}" if isinstance(to, list) else ""
            return f"a pull request{target} ({', '.join(map(str, types))})"
        case _:
            return json.dumps(trigger)


def dot(pipelines: Iterable[LintedPipeline]) -> str:
    """Return a graph for Graphviz. A solid edge leads from a disk to a step, a dashed one is order alone."""
    lines = ["digraph pipelines {", "  rankdir=LR;", "  node [shape=box];"]
    names = map("s{}".format, count())
    for place, pipeline in enumerate(pipelines):
        ids = _ids(pipeline, names)
        lines += [f"  subgraph cluster_{place} {{", f"    label={_dot_quoted(pipeline.slug)};"]
        lines += [f"    {ids[job.step_key]} [label={_dot_quoted(job.name)}];" for job in _jobs(pipeline)]
        lines += [
            f"    {ids[source]} -> {ids[target]}{'' if is_disk else ' [style=dashed]'};"
            for source, target, is_disk in _edges(pipeline)
        ]
        lines.append("  }")
    return "\n".join([*lines, "}"])


def mermaid(pipelines: Iterable[LintedPipeline]) -> str:
    """Return a graph for Mermaid, with the same edges as `dot`."""
    lines = ["flowchart LR"]
    names = map("s{}".format, count())
    for place, pipeline in enumerate(pipelines):
        ids = _ids(pipeline, names)
        lines.append(f'  subgraph p{place}["{_mermaid_quoted(pipeline.slug)}"]')
        lines += [f'    {ids[job.step_key]}["{_mermaid_quoted(job.name)}"]' for job in _jobs(pipeline)]
        lines += [
            f"    {ids[source]} {'-->' if is_disk else '-.->'} {ids[target]}"
            for source, target, is_disk in _edges(pipeline)
        ]
        lines.append("  end")
    return "\n".join(lines)


def _jobs(pipeline: LintedPipeline) -> tuple[NewJob, ...]:
    return () if pipeline.plan is None else pipeline.plan.jobs


def _ids(pipeline: LintedPipeline, names: Iterator[str]) -> dict[str, str]:
    """Return an identifier for each step; keys may hold any character."""
    return {job.step_key: next(names) for job in _jobs(pipeline)}


def _edges(pipeline: LintedPipeline) -> Iterator[tuple[str, str, bool]]:
    jobs = _jobs(pipeline)
    for job in jobs:
        for each in job.depends_on:
            yield jobs[each.position].step_key, job.step_key, each.kind is EdgeKind.BUILDS_IN


def _dot_quoted(text: str) -> str:
    """Return a string of Graphviz, whose only escapes concern backslash and quote."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _mermaid_quoted(text: str) -> str:
    """Return a text with the entities that Mermaid knows, also for what would be Markdown or HTML."""
    return "".join(each if each.isalnum() or each in " -_.,:/" else f"#{ord(each)};" for each in text)
