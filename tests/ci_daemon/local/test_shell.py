"""`ci-daemon run --shell` at a terminal."""

from __future__ import annotations

import os
import pty
from collections.abc import Iterator

import pytest

from tests.ci_daemon.local.projects import Project
from tests.e2e.pipelines import Graph


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """Yield the descriptor of the user's end, and that of the command's."""
    ours, theirs = pty.openpty()
    yield ours, theirs
    os.close(ours)


def shown(ours: int, until: bytes = b"") -> bytes:
    """Read what the terminal shows, up to a text, or to the end of the command."""
    seen = b""
    while not until or until not in seen:
        try:
            seen += os.read(ours, 1 << 16)
        except OSError:  # nobody has the other end any more
            assert not until, seen
            return seen
    return seen


def test_it_is_in_the_vm_of_the_failed_step(project: Project, terminal: tuple[int, int]):
    ours, theirs = terminal
    project.write(Graph().step("fails", "echo made >/made; exit 3", env={"WORD": "sesame"}))
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    with project.start("--shell", "fails", **streams) as process:
        os.close(theirs)
        shown(ours, b"# ")
        os.write(ours, b"cat /made; echo $WORD; exit\n")
        seen = shown(ours).decode().splitlines()
        assert process.wait(60) == 1
    assert "made" in seen
    assert "sesame" in seen
    assert project.vms() == []


def test_there_is_none_for_a_step_that_passed(project: Project, terminal: tuple[int, int]):
    ours, theirs = terminal
    project.write(Graph().step("passes", "true"))
    with project.start("--shell", "passes", stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        assert b"there is no VM to look into: passes is passed" in shown(ours)
        assert process.wait(60) == 0


def test_without_a_terminal_nothing_is_built(project: Project):
    project.write(Graph().step("only", "true"))
    code, printed = project.run("--shell", "only")
    assert (code, printed) == (1, "ci-daemon: --shell needs a terminal: run this at one\n")
