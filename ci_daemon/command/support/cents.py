"""Amounts of money on the command line."""

from __future__ import annotations

import click

CENTS = click.IntRange(1, 10**11)
"""The type of an amount: whole cents, at most a billion units of the currency."""
