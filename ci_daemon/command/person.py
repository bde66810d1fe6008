"""How a person is named on the command line."""

from __future__ import annotations

import re

import click

from ci_daemon.command.texts import one_line

__all__ = ["email_address", "shown_name"]

_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+")
_MOST = 255

shown_name = one_line(_MOST)
"""Takes a name to show."""


def email_address(text: str) -> str:
    """Take an e-mail address, of which no more is looked at than its form. Raises BadParameter."""
    if not _ADDRESS.fullmatch(text) or not text.isprintable() or len(text) > _MOST:
        raise click.BadParameter(f'"{text[:_MOST]}" is no e-mail address: give one like ada@example.org')
    return text
