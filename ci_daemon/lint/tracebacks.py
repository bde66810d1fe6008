"""Mistakes in the output of pipeline files: file, line and message of each traceback. Pure."""

from __future__ import annotations

import re

from ci_daemon.lint.report import Finding, Place

_FRAME = re.compile(r'^  File "(?P<file>[^"\n]*)", line (?P<line>[0-9]{1,9})')
_SOURCE = "    "
_BEGINS = "Traceback (most recent call last):"
_CONTINUES = ("During handling of the above exception", "The above exception was the direct cause")
_WORKSPACE = "/workspace/"


def failures_in(output: str, code: str) -> tuple[Finding, ...]:
    """Return one mistake for each exception that ended a pipeline file; none if there is no traceback.

    Its place is the last line of the project that was reached. An exception that led to another one is left out.
    """
    found: list[Finding] = []
    place: Place | None = None
    message: list[str] = []

    def end() -> None:
        if message:
            found.append(Finding("\n".join(message).strip(), place, code))
        message.clear()

    in_frames = False
    for line in output.splitlines():
        frame = _FRAME.match(line)
        if line.endswith(_BEGINS) or (frame and not in_frames):
            end()
            place = None
        if frame or line.endswith(_BEGINS):
            in_frames = True
            if frame and frame["file"].startswith(_WORKSPACE):
                place = Place(frame["file"].removeprefix(_WORKSPACE), int(frame["line"]))
        elif line.startswith(_CONTINUES):
            message.clear()
        elif not (in_frames and line.startswith(_SOURCE)) and (in_frames or message):
            in_frames = False
            message.append(line)
    end()
    return tuple(found)
