"""A question before something that cannot be undone."""

from __future__ import annotations

import sys

import click

from ci_daemon.command.support.session import Failure


def confirm(question: str) -> None:
    """Ask at the terminal.

    Raises Failure unless the answer is yes, and without a terminal.
    """
    if not sys.stdin.isatty():
        raise Failure(f"{question} Give --yes to confirm")
    if not click.confirm(question, err=True):
        raise Failure("not confirmed: nothing was done")
