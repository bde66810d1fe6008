"""Types and options of the command line, and the bodies that are made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import click

import storage
from storage import CancelSuperseded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


F = TypeVar("F", bound="Callable[..., object]")

_MAX_NOTE = 10_000

_MAX_LENGTH = 255


def one_line(max_length: int) -> Callable[[str], str]:
    """Return a type for a line of 1 to ``max_length`` characters; it raises BadParameter for other text."""

    def convert(text: str) -> str:
        if not text.strip() or not text.isprintable() or len(text) > max_length:
            raise click.BadParameter(f"give 1 to {max_length} characters on one line, not all of them spaces")
        return text

    return convert


def note_option(text: str, *, required: bool = False) -> Callable[[F], F]:
    """Add the option ``--note`` with this help to a command."""
    return click.option("--note", metavar="TEXT", callback=_note, required=required, help=text)


def watch_option(command: F) -> F:
    """Add the option ``--watch`` to a command."""
    text = "Show it again every second, in place, until q or Ctrl-C; with --json a document a line."
    return click.option("--watch", is_flag=True, help=text)(command)


def _note(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and (not value.strip() or len(value) > _MAX_NOTE):
        raise click.BadParameter(f"give 1 to {_MAX_NOTE} characters, not all of them spaces")
    return value


CENTS = click.IntRange(1, 10**11)
"""The type of an amount: whole cents, at most a billion units of the currency."""


display_name = one_line(_MAX_LENGTH)
"""The type of a display name."""


def email_address(text: str) -> str:
    """Check the form of an e-mail address and return its normal form. Raises BadParameter."""
    try:
        return storage.email_address(text)
    except storage.EmailInvalid as error:
        shown = text[:_MAX_LENGTH].encode("unicode_escape").decode()
        raise click.BadParameter(f'"{shown}" is not an e-mail address like ada@example.org: {error}') from None


DEFAULT = "default"
"""The value of a setting that is left to the next larger unit."""

superseded_option = click.option(
    "--cancel-superseded",
    type=click.Choice([*(each.value for each in CancelSuperseded), DEFAULT]),
    help="The builds that a newer push cancels: waiting ones, running ones of all branches but the default, or all.",
)

strict_shell_option = click.option(
    "--strict-shell",
    type=click.Choice(["yes", "no", DEFAULT]),
    help="Whether each line of a command that fails fails its step, in builds from now on.",
)


def strict_shell_of(given: str) -> bool | None:
    """Return the choice that the option gives, None for the default."""
    return None if given == DEFAULT else given == "yes"


def settings_in_words(document: Mapping[str, object], names: Iterable[str]) -> str:
    """Return the settings of a document for people, as in "weight 2, fail fast on"."""
    return ", ".join(f"{name.replace('_', ' ')} {_in_words(document[name])}" for name in names)


def _in_words(value: object) -> str:
    if value is None:
        return DEFAULT
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def given(options: Mapping[str, object]) -> dict[str, object]:
    """Return the body of those options that the caller gave."""
    return {name: value for name, value in options.items() if value is not None}
