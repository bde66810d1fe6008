"""The terminal of a VM while it rests: who does not wait for its output waits for the end of the rest."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from actors.vms.launcher import terminal as launcher
from actors.vms.launcher.terminal import Terminal

SPEC = {"env": {"PS1": ""}, "columns": 80, "rows": 24, "cwd": "/", "processes": 4000}
PAUSE = 0.02
LITTLE = 0.001


class Clock:
    """A clock that goes on by a little each time it is read, as a slow host's does."""

    now = 100.0

    def uptime(self) -> float:
        self.now += LITTLE
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(launcher, "uptime", made.uptime)
    return made


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Iterator[Terminal]:
    """A terminal whose shell is a process of this host."""

    def become_program(_: object, __: object, ___: object, standard: tuple[int, int, int], ____: bytes) -> None:
        os.setsid()
        for number, descriptor in enumerate(standard):
            os.dup2(descriptor, number)

    monkeypatch.setattr(launcher, "become_program", become_program)
    made = Terminal(SPEC, SimpleNamespace(), [], [])  # type: ignore[arg-type] - its namespaces are not used
    yield made
    made.type(made.typed, b"\nexit\n")
    while made.exit_code is None:
        clock.now += PAUSE
        attend(made)
    assert made.milliseconds_left is None


def attend(terminal: Terminal) -> bool:
    """Wait as the supervisor does, and do what is due; return whether the wait would end for output."""
    poll = select.poll()
    wanted = list(terminal.polled(reading=True))
    for number, events in wanted:
        poll.register(number, events)
    wakes = terminal.milliseconds_left is not None or any(events & select.POLLIN for _, events in wanted[1:])
    terminal.attend(dict(poll.poll(1)))
    return wakes


def test_output_that_comes_in_a_rest_is_waited_for(terminal: Terminal, clock: Clock):
    """Also if the rest ends between the look at it and the wait."""
    terminal.type(0, b"echo $((6*7))\n")
    while terminal.milliseconds_left is None:
        attend(terminal)
    assert [attend(terminal) for _ in range(int(2 * PAUSE / LITTLE))].count(False) == 0
