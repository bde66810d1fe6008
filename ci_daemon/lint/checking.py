"""Check pipelines: plan them, and give every mistake its place. Pure."""

from __future__ import annotations

import json
import re
from textwrap import indent
from typing import TYPE_CHECKING

from actors.ir import IrError, load
from actors.render import FilesInvalid, errors_in
from ci_daemon.lint.doubts import doubts
from ci_daemon.lint.report import Finding, LintedPipeline, Place, Report
from storage import BuildErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from actors.ir import Fault, IrSettings
    from actors.render import DeclaredPipeline, FileMistake, PipelineError, RenderFailed
    from ci_daemon.lint.pipeline_files import PipelineFiles

_IN_GRAPH = re.compile(r"^graph\.nodes\[[0-9]+\]\.(step\.)?")
"""The part of a path that the language writes, and no author of a pipeline file."""

_JSON_LINE = re.compile(r": line ([0-9]{1,9}) column [0-9]{1,9}$")
_JSON_SPACE = re.compile(r"[ \t\r\n]*")


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
        there = files.place_in(pipeline.slug, fault.path) or files.place(pipeline.slug, step)
        return Finding(message, there, fault.code, _key(step))

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
        return _line_of(text, fault.path) if fault.path else None

    try:
        plan = load(text, limits)
    except IrError as error:
        return LintedPipeline(slug, None, mistakes=tuple(map(finding, error.faults)))
    warnings = doubts(document(), (), plan, lambda _: place(), None, strict_shell=strict_shell)
    unknown = (Finding(each.message, place(_line_of(text, each.path)), step=each.step) for each in plan.unknown_keys)
    return LintedPipeline(slug, plan, warnings=(*unknown, *warnings))


def refused(failure: RenderFailed) -> Report:
    """Return the report of pipeline files that cannot be rendered."""
    if isinstance(failure, FilesInvalid):
        return Report((), tuple(map(_of_file, failure.mistakes)))
    texts = (failure.log.decode(errors="replace"), str(failure))
    found = next(filter(None, map(errors_in, texts)), ())
    return Report((), tuple(map(_of_error, found)) or (Finding(str(failure), code=BuildErrorCode.RENDER_FAILED),))


def _of_file(mistake: FileMistake) -> Finding:
    place = Place(mistake.file, mistake.line, mistake.column)
    return Finding(mistake.message, place, mistake.code, excerpt=mistake.excerpt)


def _of_error(error: PipelineError) -> Finding:
    place = None if error.file is None else Place(error.file, error.line)
    return Finding(error.message, place, BuildErrorCode.RENDER_FAILED, excerpt=indent(error.excerpt, "    "))


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


def _line_of(text: str, path: Iterable[str | int]) -> int:
    """Return the line of a JSON text on which the value at a path begins.

    If there is none, the innermost value on the way to it counts. The text is valid JSON.
    Of members with the same name the last one counts, as in other readers.
    """
    offset = _skip(text, 0)
    for part in path:
        found = _member(text, offset, part)
        if found is None:
            break
        offset = found
    return text.count("\n", 0, offset) + 1


def _member(text: str, offset: int, part: str | int) -> int | None:
    """Return the offset of a member or item of the container at an offset, or None."""
    is_object = text[offset] == "{"
    if not is_object and text[offset] != "[":
        return None
    decoder = json.JSONDecoder()
    found, place, offset = None, 0, _skip(text, offset + 1)
    while text[offset] not in "]}":
        name: str | int = place
        if is_object:
            name, offset = decoder.raw_decode(text, offset)
            offset = _skip(text, _skip(text, offset) + 1)
        if name == part:
            found = offset
        offset = _skip(text, decoder.raw_decode(text, offset)[1])
        if text[offset] == ",":
            offset = _skip(text, offset + 1)
        place += 1
    return found


def _skip(text: str, offset: int) -> int:
    space = _JSON_SPACE.match(text, offset)
    return offset if space is None else space.end()
