"""Money on the command line: amounts, and notes that stand in ledgers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CENTS", "note_option"]

F = TypeVar("F", bound="Callable[..., object]")

CENTS = click.IntRange(1, 10**11)
"""An amount that is given: whole cents, at most a billion of the currency."""

_LONGEST_NOTE = 10_000


def note_option(text: str, *, required: bool = False) -> Callable[[F], F]:
    """Have a command take ``--note``, with this help."""
    return click.option("--note", metavar="TEXT", callback=_note, required=required, help=text)


def _note(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and (not value.strip() or len(value) > _LONGEST_NOTE):
        raise click.BadParameter(f"give 1 to {_LONGEST_NOTE} characters, not all of them spaces")
    return value
