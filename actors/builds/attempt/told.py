"""Files by which a command tells something (engine.md, "Outputs"). Pure.

``$CI_OUTPUT`` has variables of the jobs that need this one, ``$CI_SUMMARY`` Markdown, ``$CI_ANNOTATIONS`` remarks on
places in the repository.
"""

from __future__ import annotations

import json
import posixpath
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from storage import Annotation, AnnotationLevel, immutable, pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from actors.ir import ProblemRow
    from storage import GivenOutputs, Masker

OUTPUTS = "output"
SUMMARY = "summary"
ANNOTATIONS = "annotations"
MAX_BYTES = 1 << 16
MAX_ANNOTATION_BYTES = 1 << 18
MOST_ANNOTATIONS = 500
_MOST = 100
_SHOWN = 5
_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_MAX_NAME_CHARS = 100
_NO_TEXT = pattern(r"[\0\ud800-\udfff]")
_OF_SERVICE = pattern(r"CI(_.*)?")
_CONTROLS = pattern(r"[\x00-\x08\x0b-\x1f\x7f]")
_PLACED = pattern(r"(error|warning|notice) (\S+?):([0-9]{1,9})(?::([0-9]{1,9}))?:?(?: (.*))?", re.ASCII | re.DOTALL)
_WORKSPACE = "/workspace/"
_MAX_PATH_CHARS = 500
_MAX_TITLE_CHARS = 200
_MAX_MESSAGE_CHARS = 2_000
_MAX_LINE = 10**9


@immutable
class WrittenOutputs:
    """The variables that a command has written, and a sentence for each that cannot be one."""

    variables: Mapping[str, str]
    faults: tuple[str, ...]

    @property
    def error(self) -> str | None:
        """Why some cannot be variables, None if all are."""
        if not self.faults:
            return None
        more = f"; and {len(self.faults) - _SHOWN:,} more" if len(self.faults) > _SHOWN else ""
        return f"$CI_OUTPUT cannot be used: {'; '.join(self.faults[:_SHOWN])}{more}"


def written_outputs(content: bytes, size: int, masker: Masker) -> WrittenOutputs:
    """Return the outputs in the first bytes of a file of this size.

    They are lines ``NAME=value``, of which the last of a name counts. A secret is in no output: who reads these may not
    be who may read it.
    """
    if size > len(content):
        return WrittenOutputs({}, (f"it has {size:,} bytes of at most {MAX_BYTES:,}: give large values as artifacts",))
    found: dict[str, str] = {}
    faults: list[str] = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line:
            continue
        name, equals, value = line.decode("utf-8", "surrogateescape").partition("=")
        if not equals or not _NAME.fullmatch(name) or len(name) > _MAX_NAME_CHARS:
            faults.append(f"line {number:,} is not NAME=value")
        elif (why := _why_no_output(name, value, masker)) is not None:
            faults.append(f"{masker.masked(name)} {why}")
            found.pop(name, None)
        else:
            found[name] = value
    if len(found) > _MOST:
        return WrittenOutputs({}, (*faults, f"it has {len(found):,} names of at most {_MOST}"))
    return WrittenOutputs(found, tuple(faults))


def _why_no_output(name: str, value: str, masker: Masker) -> str | None:
    if _OF_SERVICE.fullmatch(name):
        return "is a name of the service's own"
    if _NO_TEXT.search(value):
        return "has a value that is no text in UTF-8"
    if masker.masked(f"{name}={value}") != f"{name}={value}":
        return "has a secret in it"
    return None


def variables_of(given: Iterable[GivenOutputs]) -> tuple[dict[str, str], list[str]]:
    """Return the variables of a job that needs these, and a line for each name that two of them give.

    Equal values are told by no line. The later one in the order of the build counts.
    """
    found: dict[str, tuple[str, str]] = {}
    lines: list[str] = []
    for each in given:
        for name, value in each.variables.items():
            if name in found and found[name][1] != value:
                lines.append(f'{name} is the output of "{each.step_key}": "{found[name][0]}" gives another value')
            found[name] = each.step_key, value
    return {name: value for name, (_, value) in found.items()}, lines


def written_summary(content: bytes, size: int, masker: Masker) -> tuple[str, bool]:
    """Return the summary in the first bytes of a file of this size, and whether it was longer.

    A longer one ends with a whole line, and before what may be the beginning of a secret.
    """
    text, is_cut = _whole_lines(content, size, masker)
    return _CONTROLS.sub("", text), is_cut


def _whole_lines(content: bytes, size: int, masker: Masker) -> tuple[str, bool]:
    is_cut = size > len(content)
    masked = bytes(masker.mask(content, more=is_cut)[0])
    if is_cut:
        masked = masked[: masked.rfind(b"\n") + 1]
    return masked.decode("utf-8", "replace"), is_cut


@immutable
class WrittenAnnotations:
    """The annotations that a command has written; ``fault`` says what of its file is none."""

    annotations: tuple[Annotation, ...]
    fault: str | None


def written_annotations(content: bytes, size: int, masker: Masker) -> WrittenAnnotations:
    """Return the annotations in the first bytes of a file of this size.

    Each is a line: ``LEVEL FILE:LINE[:COLUMN] MESSAGE``, or a JSON object with ``level``, ``message``, and of ``path``,
    ``line``, ``column`` and ``title`` those that there are.
    """
    text, is_cut = _whole_lines(content, size, masker)
    found: list[Annotation] = []
    faults: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        annotation = _of_json(line, masker) if line.startswith("{") else _of_text(line)
        if annotation is None:
            faults.append(f"line {number:,} is no annotation")
        else:
            found.append(annotation)
    more = f"; and {len(faults) - _SHOWN:,} more" if len(faults) > _SHOWN else ""
    said = [f"{'; '.join(faults[:_SHOWN])}{more}"] if faults else []
    if is_cut:
        said.append(f"of {size:,} bytes the first {len(content):,} are read")
    return WrittenAnnotations(tuple(found), f"$CI_ANNOTATIONS: {'; '.join(said)}" if said else None)


def bounded(annotations: tuple[Annotation, ...], more: int = 0) -> tuple[Annotation, ...]:
    """Return at most as many annotations as a job may have; the last one counts those that are left out.

    ``more`` is the number of annotations beside these.
    """
    if len(annotations) + more <= MOST_ANNOTATIONS:
        return annotations
    kept = annotations[: MOST_ANNOTATIONS - 1]
    left_out = f"{len(annotations) + more - len(kept):,} more annotations of this job are not kept"
    return (*kept, Annotation(AnnotationLevel.NOTICE, left_out))


def annotation(
    level: AnnotationLevel,
    message: str,
    path: str | None = None,
    line: int | None = None,
    column: int | None = None,
    title: str | None = None,
) -> Annotation:
    """Return an annotation of a stranger's words, cut to its bounds and without controls.

    A path in the workspace is relative to it. A place that cannot be is left out.
    """
    place = None if path is None else _relative(_CONTROLS.sub("", path))
    at = line if place and line and 0 < line < _MAX_LINE else None
    return Annotation(
        level,
        _CONTROLS.sub("", message).strip()[:_MAX_MESSAGE_CHARS],
        place,
        at,
        column if at and column and 0 < column < _MAX_LINE else None,
        (_CONTROLS.sub("", title).strip()[:_MAX_TITLE_CHARS] or None) if title else None,
    )


def of_problem(row: ProblemRow) -> Annotation:
    """Return the annotation of a problem that another process has found."""
    matcher, log_line, level, message, path, line, column, title = row
    found = annotation(AnnotationLevel(level), message, path, line, column, title)
    return replace(found, matcher=matcher, log_line=log_line)


def _relative(path: str) -> str | None:
    """Return a path as it is in the repository; None if it is none, or too long."""
    normal = posixpath.normpath(path.removeprefix(_WORKSPACE)) if path.strip() else "."
    return None if normal == "." or len(normal) > _MAX_PATH_CHARS else normal


def _of_text(line: str) -> Annotation | None:
    found = _PLACED.fullmatch(line.rstrip("\r"))
    if found is None:
        return None
    level, path, at, column, message = found.groups()
    return annotation(AnnotationLevel(level), message or "", path, int(at), int(column) if column else None)


def _of_json(line: str, masker: Masker) -> Annotation | None:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError):
        return None
    texts = [given.get(name) for name in ("message", "path", "title")]
    line_number, column = (given.get(name) for name in ("line", "column"))
    if (
        given.get("level") not in tuple(AnnotationLevel)
        or texts[0] is None
        or not all(isinstance(text, str | None) for text in texts)
        or not all(type(number) in {int, type(None)} for number in (line_number, column))
    ):
        return None
    message, path, title = (text and masker.masked(text) for text in texts)
    return annotation(AnnotationLevel(given["level"]), message, path, line_number, column, title)
