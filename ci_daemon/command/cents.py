"""Money on the command line."""

from __future__ import annotations

import click

__all__ = ["CENTS"]

CENTS = click.IntRange(1, 10**11)
"""An amount that is given: whole cents, at most a billion of the currency."""
