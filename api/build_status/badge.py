"""Badges: the state of a pipeline as a small SVG image."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from api.state_looks import look_of

if TYPE_CHECKING:
    from storage import BuildState, PipelineStatus

_GREY = "#57606a"
_COLOURS = {"green": "#1a7f37", "red": "#cf222e", "yellow": "#9a6700", "dim": _GREY}
"""Colours by their names in a terminal, on which white text has a contrast of at least 4.5."""

_GOOD, _FAIR = 80, 50
_LABEL_COLOUR = "#24292f"
_FONT = "Verdana,DejaVu Sans,Geneva,sans-serif"
_LABEL_CHARS = 40
_MARGIN = 6

_WIDTHS = {
    character: width
    for width, characters in (
        (3, " ',.IJijl"),
        (4, "!()-/:;[\\]ft|"),
        (5, '"r'),
        (6, "*?FL_`cksz"),
        (8, "ABCDHNRUVXZ"),
        (9, "#&+<=>GMOQ^w~"),
        (10, "%"),
        (11, "@Wm…"),
    )
    for character in characters
}
"""Pixels that a character of the font takes at 11 pixels."""

_NARROW, _WIDE = 7, 11

_BADGE = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label={title_value}>
<title>{title}</title>
<rect width="{width}" height="20" rx="3" fill="{label_colour}"/>
<path d="M{left} 0h{value_end}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3H{left}z" fill="{colour}"/>
<g fill="#fff" font-family="{font}" font-size="11">
<text x="{margin}" y="14" textLength="{label_width}">{label}</text>
<text x="{value_x}" y="14" textLength="{value_width}">{value}</text>
</g>
</svg>
"""


def badge_of(status: PipelineStatus) -> str:
    """Return the badge of a pipeline: its name, and the state of its latest build."""
    state = status.latest_state
    if state is None:
        return badge(status.pipeline_name, "no builds", _GREY)
    return badge(status.pipeline_name, state.value, colour_of(state))


def coverage_badge(percent: float | None) -> str:
    """Return the badge of a coverage in percent: green from 80 on, red below 50."""
    if percent is None:
        return badge("coverage", "unknown", _GREY)
    colour = "green" if percent >= _GOOD else "yellow" if percent >= _FAIR else "red"
    return badge("coverage", f"{int(percent)}%", _COLOURS[colour])


def colour_of(state: BuildState) -> str:
    """Return the colour of a state: what the command prints it in."""
    return _COLOURS[look_of(state).colour]


def badge(label: str, value: str, colour: str) -> str:
    """Return an SVG image of two texts side by side, the second on a colour.

    The image says how long each text is, so that it fits whatever font the viewer has.
    """
    label, value = _shown(label), _shown(value)
    label_width, value_width = _text_width(label), _text_width(value)
    left, right = label_width + 2 * _MARGIN, value_width + 2 * _MARGIN
    title = f"{label}: {value}"
    return _BADGE.format(
        width=left + right,
        left=left,
        value_end=right - 3,
        title=escape(title),
        title_value=quoteattr(title),
        label_colour=_LABEL_COLOUR,
        colour=colour,
        font=_FONT,
        margin=_MARGIN,
        label=escape(label),
        label_width=label_width,
        value=escape(value),
        value_x=left + _MARGIN,
        value_width=value_width,
    )


def _shown(text: str) -> str:
    """Return a text on one short line, without characters that XML forbids or that reverse a text."""
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return line if len(line) <= _LABEL_CHARS else f"{line[: _LABEL_CHARS - 1].rstrip()}…"


def _text_width(text: str) -> int:
    return max(1, sum(_character_width(character) for character in text))


def _character_width(character: str) -> int:
    if character in _WIDTHS:
        return _WIDTHS[character]
    if unicodedata.combining(character):
        return 0
    return _WIDE if unicodedata.east_asian_width(character) in {"F", "W"} else _NARROW


UNKNOWN_BADGE = badge("build", "unknown", _GREY)
"""The badge of a pipeline that does not exist, or that the viewer may not read."""
