"""Questions to a person at a prompt."""

from __future__ import annotations

import sys

import click

from ci_daemon.command.support.session import Failure

_MAX_LENGTH = 1024
_MAX_BYTES = 2**20


def hidden_line(name: str) -> str:
    """Return a line of stdin, or at a terminal what is typed and not shown. Raises Failure."""
    if sys.stdin.isatty():
        typed: str = click.prompt(name, hide_input=True, err=True)
        return typed.strip()
    line = sys.stdin.readline(_MAX_LENGTH).strip()
    if not line:
        raise Failure(f"{name.lower()}: nothing came on stdin")
    return line


def read_value(prompt: str, name: str) -> str:
    """Return stdin's text less its last line end, or a terminal's hidden answer. Raises Failure."""
    if sys.stdin.isatty():
        value: str = click.prompt(prompt, hide_input=True, err=True)
        return value
    try:
        text = sys.stdin.buffer.read(_MAX_BYTES).decode()
    except UnicodeDecodeError:
        raise Failure(
            f"{name}: expected text in UTF-8; give other bytes in base64 and have the job decode them"
        ) from None
    return text.removesuffix("\n").removesuffix("\r")


def confirm(question: str) -> None:
    """Ask at the terminal.

    Raises Failure unless the answer is yes, and without a terminal.
    """
    if not sys.stdin.isatty():
        raise Failure(f"{question} Give --yes to confirm")
    if not click.confirm(question, err=True):
        raise Failure("not confirmed: nothing was done")
