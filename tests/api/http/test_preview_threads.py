"""Programs that never answer hold up neither the previews of others nor the service."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import cast

import pytest

from api.http.preview_threads import PreviewThreads
from api.http.workers import Task
from tests.api.http.served import Served
from tests.waiting import until


class Hanging:
    """A request that is answered once it is let go."""

    def __init__(self) -> None:
        self.begun, self.released = threading.Event(), threading.Event()
        self.canceled = False

    def service(self) -> None:
        self.begun.set()
        assert self.released.wait(60)

    def cancel(self) -> None:
        self.canceled = True


class Crowd:
    """Threads, and the requests to them that hang."""

    def __init__(self) -> None:
        self.threads = PreviewThreads()
        self.all: list[Hanging] = []

    def ask(self, host: str, count: int = 1) -> list[Hanging]:
        asked = [Hanging() for _ in range(count)]
        self.all += asked
        for each in asked:
            self.threads.add(host, cast("Task", each))
        return asked

    def end(self) -> None:
        for each in self.all:
            each.released.set()
        self.threads.close(60)


@pytest.fixture
def crowd() -> Iterator[Crowd]:
    crowd = Crowd()
    yield crowd
    crowd.end()


def begun(requests: list[Hanging]) -> int:
    return sum(each.begun.is_set() for each in requests)


def test_a_program_that_hangs_holds_up_itself_alone(crowd: Crowd):
    """Six of its requests are served at once, a hundred wait, and the rest is sent away."""
    hung = crowd.ask("a", 6)
    until(lambda: begun(hung) == 6, "six requests to one preview")
    waiting = crowd.ask("a", 101)
    assert [each.canceled for each in waiting] == [False] * 100 + [True]
    (other,) = crowd.ask("b")
    assert other.begun.wait(60)
    assert begun(waiting) == 0
    hung[0].released.set()
    assert waiting[0].begun.wait(60)
    assert begun(waiting) == 1


def test_hanging_programs_have_few_threads(crowd: Crowd):
    """Waiting requests are served in turns of previews, once there is a thread."""
    hung = [each for host in range(11) for each in crowd.ask(str(host), 6)]
    until(lambda: begun(hung) == 64, "as many requests as there are threads")
    (late,) = crowd.ask("late")
    assert begun([late]) == 0
    for each in [each for each in hung if each.begun.is_set()][:2]:
        each.released.set()
    assert late.begun.wait(60)


def test_a_preview_has_its_threads_whatever_port_is_named(served: Served, monkeypatch: pytest.MonkeyPatch):
    """A request may name any port after its host, also in other letters."""
    uuid, asked = "9b2e6f0c-3f5b-4a3e-8a53-0d6f2f3b7a11", list[str]()
    add = PreviewThreads.add

    def noted(threads: PreviewThreads, preview: str, task: Task) -> None:
        asked.append(preview)
        add(threads, preview, task)

    monkeypatch.setattr(PreviewThreads, "add", noted)
    host = f"preview-{uuid}.previews.example.net"
    for each in (host, host.upper(), f"{host}:1", f"{host}:65535"):
        served.send(f"GET / HTTP/1.1\r\nHost: {each}\r\n\r\n".encode()).read()
    assert asked == [uuid] * 4
