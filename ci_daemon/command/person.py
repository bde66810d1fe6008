"""How a person is named on the command line."""

from __future__ import annotations

import re

import click

__all__ = ["email_address", "shown_name"]

_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+")
_MOST = 255


def email_address(text: str) -> str:
    """Take an e-mail address, of which no more is looked at than its form. Raises BadParameter."""
    if not _ADDRESS.fullmatch(text) or not text.isprintable() or len(text) > _MOST:
        raise click.BadParameter(f'"{text[:_MOST]}" is no e-mail address: give one like ada@example.org')
    return text


def shown_name(text: str) -> str:
    """Take a name to show. Raises BadParameter."""
    if not text.strip() or not text.isprintable() or len(text) > _MOST:
        raise click.BadParameter(f"give 1 to {_MOST} characters on one line, not all of them spaces")
    return text
