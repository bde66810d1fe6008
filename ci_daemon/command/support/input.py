"""Questions to a person at a prompt."""

from __future__ import annotations

import sys

import click

from ci_daemon.command.support.session import Failure

_MAX_LENGTH = 1024


def hidden_line(name: str) -> str:
    """Return a line of stdin, or at a terminal what is typed and not shown. Raises Failure."""
    if sys.stdin.isatty():
        typed: str = click.prompt(name, hide_input=True, err=True)
        return typed.strip()
    line = sys.stdin.readline(_MAX_LENGTH).strip()
    if not line:
        raise Failure(f"{name.lower()}: nothing came on stdin")
    return line


def confirm(question: str) -> None:
    """Ask at the terminal.

    Raises Failure unless the answer is yes, and without a terminal.
    """
    if not sys.stdin.isatty():
        raise Failure(f"{question} Give --yes to confirm")
    if not click.confirm(question, err=True):
        raise Failure("not confirmed: nothing was done")
