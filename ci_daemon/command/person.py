"""Types of people's names and e-mail addresses on the command line."""

from __future__ import annotations

import click

import storage
from ci_daemon.command.texts import one_line

__all__ = ["email_address", "shown_name"]

_MOST = 255

shown_name = one_line(_MOST)
"""The type of a display name."""


def email_address(text: str) -> str:
    """Check the form of an e-mail address and return its normal form. Raises BadParameter."""
    try:
        return storage.email_address(text)
    except storage.EmailInvalid as error:
        shown = text[:_MOST].encode("unicode_escape").decode()
        raise click.BadParameter(f'"{shown}" is no e-mail address, give one like ada@example.org: {error}') from None
