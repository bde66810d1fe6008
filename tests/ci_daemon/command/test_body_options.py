"""Options that are fields of bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner

from api.body import ABSENT
from ci_daemon.command.support.body_options import body_option, body_options, given
from storage import CancelSuperseded, described, immutable

if TYPE_CHECKING:
    from api.fields import RequiredText


@immutable
class Body:
    name: RequiredText = described("Its name.", word="NAME")
    weight: int = described("Its weight.", default=ABSENT, bounds=(1, 9))
    fail_fast: bool = described("Whether it fails fast.", default=ABSENT)
    strict: bool | None = described("Whether it is strict.", default=ABSENT)
    superseded: CancelSuperseded | None = described("What it cancels.", default=ABSENT)
    about: RequiredText | None = described("A sentence.", default=ABSENT)
    lfs: bool = described("Also large files.", default=False)


def body_of(*arguments: str) -> tuple[dict[str, Any], str]:
    """Return the fields that a command line gives, and what the command printed."""
    found: dict[str, Any] = {}

    @click.command()
    @body_options(Body, "weight", "fail_fast", "strict", "superseded", "about")
    @body_option(Body, "lfs", "--large")
    @body_option(Body, "name", default="it", show_default=True)
    def command(**options: Any) -> None:
        found.update(given(options))

    done = CliRunner().invoke(command, arguments)
    return found, done.output


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("", {}),
        ("--weight 9", {"weight": 9}),
        ("--no-fail-fast", {"fail_fast": False}),
        ("--strict no", {"strict": False}),
        ("--strict default", {"strict": None}),
        ("--superseded all", {"superseded": CancelSuperseded.ALL}),
        ("--superseded default", {"superseded": None}),
        ("--about default", {"about": "default"}),
        ("--large", {"lfs": True}),
    ],
)
def test_only_what_is_given_is_sent(line: str, fields: dict[str, object]):
    found, printed = body_of(*line.split())
    assert (found, printed) == ({"name": "it", **fields}, "")


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (("--weight", "10"), "10 is not in the range 1<=x<=9"),
        (("--superseded", "some"), "'some' is not one of"),
        (("--name", ""), "give 1 to 255 characters on one line"),
        (("--about", "x" * 256), "give 1 to 255 characters on one line"),
    ],
)
def test_choices_and_bounds_are_those_of_the_field(line: tuple[str, ...], error: str):
    assert error in body_of(*line)[1]


def test_the_help_is_the_sentence_of_the_field():
    _, printed = body_of("--help")
    for each in ("--name NAME", "Its name.  [default: it]", "--strict [yes|no|default]", "Whether it is strict."):
        assert each in printed
