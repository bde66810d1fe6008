"""Types of values on the command line, and options that several commands have."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import click

import storage

if TYPE_CHECKING:
    from collections.abc import Callable


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


def limit_option(greatest: int, default: int) -> Callable[[F], F]:
    """Add the option ``--limit`` to a command that lists."""
    text = "The maximum number to list."
    return click.option("--limit", type=click.IntRange(1, greatest), default=default, show_default=True, help=text)


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
