"""Types and options of free text on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., object]")

_MAX_NOTE = 10_000


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
