"""Check pipelines: plan them, and give every mistake its place. Pure."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from actors.ir import IrError, load
from ci_daemon.lint.doubts import doubts
from ci_daemon.lint.json_lines import line_of
from ci_daemon.lint.report import Finding, LintedPipeline, Place, Report
from ci_daemon.lint.tracebacks import failures_in
from storage import BuildErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from actors.ir import Fault, IrSettings
    from actors.render import DeclaredPipeline, RenderFailed
    from ci_daemon.lint.pipeline_files import PipelineFiles

_IN_GRAPH = re.compile(r"^graph\.nodes\[[0-9]+\]\.(step\.)?")
"""The part of a path that the language writes, and no author of a pipeline file."""

_JSON_LINE = re.compile(r": line ([0-9]{1,9}) column [0-9]{1,9}$")


def check_declared(
    pipeline: DeclaredPipeline,
    files: PipelineFiles,
    limits: IrSettings,
    source: Collection[str] | None = None,
    *,
    strict_shell: bool = False,
) -> LintedPipeline:
    """Check a pipeline that a project's files declare.

    ``source`` has the names of the project's files, None if they are not known. With ``strict_shell`` commands will run
    in a shell that ends at the first failure.
    """

    def finding(fault: Fault) -> Finding:
        step = _step_at(pipeline.definition, fault.path)
        message = _IN_GRAPH.sub("", fault.message)
        return Finding(message, files.place(pipeline.slug, step), fault.code, _key(step))

    def place(step: Mapping[str, object]) -> Place | None:
        return files.place(pipeline.slug, step)

    try:
        plan = load(pipeline.pipeline_ir, limits)
    except IrError as error:
        return LintedPipeline(pipeline.slug, None, pipeline.triggers, tuple(map(finding, error.faults)))
    warnings = doubts(pipeline.definition, pipeline.triggers, plan, place, source, strict_shell=strict_shell)
    unknown = (
        Finding(each.message, place(_step_at(pipeline.definition, each.path)), step=each.step)
        for each in plan.unknown_keys
    )
    return LintedPipeline(pipeline.slug, plan, pipeline.triggers, warnings=(*unknown, *warnings))


def check_ir(
    slug: str, text: str, file: str | None, limits: IrSettings, *, strict_shell: bool = False
) -> LintedPipeline:
    """Check a pipeline as JSON, the text of a file; without its name nothing has a place."""

    def place(line: int | None = None) -> Place | None:
        return None if file is None else Place(file, line)

    def finding(fault: Fault) -> Finding:
        if (found := _JSON_LINE.search(fault.message)) is not None:
            return Finding(fault.message, place(int(found[1])), fault.code)
        return Finding(fault.message, place(line(fault)), fault.code, _key(_step_at(document(), fault.path)))

    def document() -> object:
        return json.loads(text)

    def line(fault: Fault) -> int | None:
        return line_of(text, fault.path) if fault.path else None

    try:
        plan = load(text, limits)
    except IrError as error:
        return LintedPipeline(slug, None, mistakes=tuple(map(finding, error.faults)))
    warnings = doubts(document(), (), plan, lambda _: place(), None, strict_shell=strict_shell)
    unknown = (Finding(each.message, place(line_of(text, each.path)), step=each.step) for each in plan.unknown_keys)
    return LintedPipeline(slug, plan, warnings=(*unknown, *warnings))


def refused(failure: RenderFailed) -> Report:
    """Return the report of pipeline files that cannot be rendered."""
    texts = (failure.log.decode(errors="replace"), str(failure))
    found = next(filter(None, (failures_in(text, BuildErrorCode.RENDER_FAILED) for text in texts)), ())
    return Report((), found or (Finding(str(failure), code=BuildErrorCode.RENDER_FAILED),))


def _step_at(document: object, path: tuple[str | int, ...]) -> Mapping[str, object]:
    """Return the step that a path leads into, in either shape; empty if there is none.

    An edge leads to its dependent.
    """
    match path:
        case ("graph", "edges", int(place), *_):
            edge = _at(document, ("graph", "edges", place))
            target = edge[1] if isinstance(edge, list) and len(edge) > 1 else None
            found = _at(document, ("graph", "nodes", target, "step"))
        case ("graph", "nodes", int(place), *_):
            found = _at(document, ("graph", "nodes", place, "step"))
        case ("steps", int(place), *_):
            found = _at(document, ("steps", place))
        case _:
            found = None
    return found if isinstance(found, dict) else {}


def _at(value: object, path: Iterable[object]) -> object:
    """Return the value at a path, or None."""
    for part in path:
        match value, part:
            case dict(), str():
                value = value.get(part)
            case list(), int() if 0 <= part < len(value):
                value = value[part]
            case _:
                return None
    return value


def _key(step: Mapping[str, object]) -> str | None:
    key = step.get("key")
    return key if isinstance(key, str) else None
