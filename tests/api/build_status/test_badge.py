"""The text of badges, for names of any kind."""

from __future__ import annotations

from datetime import UTC, datetime
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.build_status.badge import UNKNOWN_BADGE, badge_of, colour_of
from api.state_looks import look_of
from storage import BuildState, PipelineStatus

SVG = "{http://www.w3.org/2000/svg}"
CREATED = datetime(2026, 1, 1, tzinfo=UTC)
OF_STYLE = {"green": "#1a7f37", "red": "#cf222e", "bold red": "#cf222e", "yellow": "#9a6700", "dim": "#57606a"}


def status(name: str, state: BuildState | None = BuildState.PASSED) -> PipelineStatus:
    return PipelineStatus("acme", "web", name, CREATED, state, None, None, None, None)


def texts(svg: str) -> list[str | None]:
    """Return what a badge says, from its elements."""
    return [text.text for text in ET.fromstring(svg).iter(f"{SVG}text")]


def test_a_badge_says_name_and_state():
    root = ET.fromstring(badge_of(status("Web")))

    assert texts(badge_of(status("Web"))) == ["Web", "passed"]
    assert root.get("aria-label") == root.findtext(f"{SVG}title") == "Web: passed"


@pytest.mark.parametrize("state", BuildState)
def test_a_state_has_the_colour_that_the_command_prints(state: BuildState):
    assert colour_of(state) == OF_STYLE[look_of(state).style]
    assert f'fill="{colour_of(state)}"' in badge_of(status("Web", state))


def test_a_pipeline_without_builds_has_a_badge():
    assert texts(badge_of(status("Web", None))) == ["Web", "no builds"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("</text><script>alert(1)</script>", "</text><script>alert(1)</script>"),
        ("\"' onload='alert(1)' x=\"", "\"' onload='alert(1)' x=\""),
        ("a & b", "a & b"),
        ("&xxe;<!ENTITY xxe SYSTEM 'x'>", "&xxe;<!ENTITY xxe SYSTEM 'x'>"),
        ("a\x00b\x1b[31m\x07", "a b [31m"),
        ("one\n\n  two\t", "one two"),
        ("safe\u202edessap", "safe dessap"),
        ("\ufffe\ud800x", "x"),
        ("\u202e", ""),
        ("x" * 255, f"{'x' * 39}…"),
        ("{width} {0} %s", "{width} {0} %s"),
    ],
)
def test_a_name_is_text_whatever_it_holds(name: str, shown: str):
    svg = badge_of(status(name))
    found = ET.fromstring(svg.encode())

    assert (texts(svg)[0] or "", texts(svg)[1]) == (shown, "passed")
    assert {each.tag.removeprefix(SVG) for each in found.iter()} == {"svg", "title", "rect", "path", "g", "text"}
    assert found.attrib.keys() == {"width", "height", "role", "aria-label"}


@given(st.text(max_size=255))
def test_every_name_makes_a_badge(name: str):
    root = ET.fromstring(badge_of(status(name)).encode())
    assert len(list(root.iter(f"{SVG}text"))) == 2


@pytest.mark.parametrize(
    ("name", "pixels"), [("hello", 27), ("my-pipeline-with-a-long-name", 166), ("WWWW", 44), ("構建", 22), ("é", 7)]
)
def test_a_badge_is_as_wide_as_its_text(name: str, pixels: int):
    """The widths are those of DejaVu Sans at 11 pixels; each half has a margin of 6 pixels on both sides."""
    root = ET.fromstring(badge_of(status(name)))
    label, value = root.iter(f"{SVG}text")
    widths = [int(text.get("textLength") or 0) for text in (label, value)]
    (path,) = root.iter(f"{SVG}path")

    assert widths[0] == pytest.approx(pixels, abs=2)
    assert (path.get("d") or "").startswith(f"M{widths[0] + 12} 0h{widths[1] + 12 - 3}a3")
    assert int(root.get("width") or 0) == sum(widths) + 24
    assert int(value.get("x") or 0) == widths[0] + 12 + 6


def test_the_badge_of_an_unknown_pipeline_names_none():
    assert texts(UNKNOWN_BADGE) == ["build", "unknown"]
