"""Types of people's names and e-mail addresses on the command line."""

from __future__ import annotations

import click

import storage
from ci_daemon.command.support.texts import one_line

_MAX_LENGTH = 255

display_name = one_line(_MAX_LENGTH)
"""The type of a display name."""


def email_address(text: str) -> str:
    """Check the form of an e-mail address and return its normal form. Raises BadParameter."""
    try:
        return storage.email_address(text)
    except storage.EmailInvalid as error:
        shown = text[:_MAX_LENGTH].encode("unicode_escape").decode()
        raise click.BadParameter(f'"{shown}" is not an e-mail address like ada@example.org: {error}') from None
