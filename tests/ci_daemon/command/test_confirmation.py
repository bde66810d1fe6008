"""Questions before something that cannot be undone."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from ci_daemon.command import main
from storage import Storage

_PROGRAM = """
from ci_daemon.command.support.input import confirm
from ci_daemon.command.support.session import Failure
try:
    confirm("Delete it?")
    print("deleted")
except Failure as failure:
    print(failure.message)
"""


@pytest.mark.parametrize(
    ("typed", "printed"), [("y", "deleted"), ("n", "not confirmed: nothing was done"), ("", "not confirmed")]
)
def test_only_a_yes_at_the_terminal_is_one(typed: str, printed: str):
    ours, theirs = pty.openpty()
    try:
        os.write(ours, f"{typed}\n".encode())
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM], check=True, stdin=theirs, capture_output=True, text=True, timeout=60
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert "Delete it? [y/N]: " in done.stdout + done.stderr
    assert printed in done.stdout


def test_without_a_terminal_yes_is_given_as_an_option(storage: Storage, capsys: pytest.CaptureFixture[str]):
    state = ["--state-dir", str(storage.directory)]
    assert main([*state, "user", "add", "ada@example.org", "--name", "Ada"]) == 0
    assert main([*state, "pipeline", "create", "ada-example-org", "web", "--repository", "https://example.org/w"]) == 0
    assert main([*state, "pipeline", "delete", "ada-example-org", "web"]) == 1
    assert "Delete ada-example-org/web with 0 builds? Give --yes to confirm" in capsys.readouterr().err
