"""Turns of requests, by callers and time alone."""

from __future__ import annotations

import pytest
from waitress.adjustments import Adjustments

from api.http.channel import Parser
from api.http.workers import Caller, CallerKind, Callers, Turns
from api.middleware.client_addresses import ClientAddresses
from tests.api.http.served import Served
from tests.reached import reached

ADA, BOB = (Caller(CallerKind.KNOWN, name) for name in ("ada", "bob"))
HEALTH, REPORT = Caller(CallerKind.HEALTH), Caller(CallerKind.REPORT)
NEAR, FAR = (Caller(CallerKind.STRANGER, address) for address in ("192.0.2.1", "192.0.2.2"))


class Named:
    """A task with a name."""

    def __init__(self, name: str, caller: Caller) -> None:
        self.name = name
        self.caller = caller

    def service(self) -> None:
        raise AssertionError

    def cancel(self) -> None:
        raise AssertionError


class Day:
    """Turns, and a clock that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0
        self.turns = Turns(lambda: self.now)

    def add(self, caller: Caller, *names: str) -> None:
        for name in names:
            self.turns.add(Named(name, caller))

    def served(self, seconds: float = 0.001) -> list[str]:
        """Serve tasks as long as one may begin, each for some time; return their names."""
        names = []
        while task := self.turns.take():
            assert isinstance(task, Named)
            names.append(task.name)
            self.now += seconds
            self.turns.end(task)
        return names


@pytest.fixture
def day() -> Day:
    return Day()


def test_callers_take_turns_whatever_they_send(day: Day):
    day.add(ADA, *(f"ada {number}" for number in range(5)))
    day.add(BOB, "bob 0", "bob 1")
    day.add(HEALTH, "health")
    assert day.served() == ["ada 0", "bob 0", "health", "ada 1", "bob 1", "ada 2", "ada 3", "ada 4"]
    assert len(day.turns) == 0


def test_whose_last_turn_is_longest_ago_is_next(day: Day):
    day.add(ADA, "ada 0", "ada 1", "ada 2")
    first = day.turns.take()
    day.now += 0.005
    day.add(BOB, "bob 0")
    day.add(HEALTH, "health")
    assert first is not None
    day.turns.end(first)
    assert day.served() == ["bob 0", "health", "ada 1", "ada 2"]


def test_callers_of_single_requests_leave_turns_to_others(day: Day):
    """However soon a caller sends the next request, requests that wait come first."""
    day.add(ADA, "ada 0", "ada 1")
    served = []
    for number in range(3):
        for caller in (BOB, HEALTH):
            day.add(caller, f"{caller.kind.name} {number}")
            task = day.turns.take()
            assert isinstance(task, Named)
            served.append(task.name)
            day.now += 0.001
            day.turns.end(task)
    assert "ada 0" in served[:3]
    assert "ada 1" in served


def test_strangers_are_one_caller_and_rest_after_each_request(day: Day):
    day.add(NEAR, "near 0", "near 1", "near 2")
    day.add(FAR, "far 0")
    day.add(ADA, "ada 0", "ada 1", "ada 2")
    assert day.served(0.01) == ["near 0", "ada 0", "far 0", "ada 1", "near 1", "ada 2", "near 2"]
    assert len(day.turns) == 0


def test_a_task_whose_rest_ends_as_one_asks_may_begin_now(day: Day):
    day.add(NEAR, "first", "second")
    assert day.served(0.01) == ["first"]
    assert day.turns.take() is None
    day.now += 0.01
    assert day.turns.seconds() == 0.0


def test_strangers_leave_half_of_the_time(day: Day):
    day.add(NEAR, "first", "second")
    assert day.served(0.01) == ["first"]
    assert day.turns.seconds() == pytest.approx(0.01)
    day.now += 0.01
    assert day.served() == ["second"]


def test_a_user_rests_as_long_as_a_request_waited(day: Day):
    day.add(ADA, "ada 0", "ada 1", "ada 2")
    day.add(BOB, "bob 0", "bob 1")
    first = day.turns.take()
    assert first is not None
    day.turns.end(first, delay=0.002)
    assert day.served(0.0005) == ["bob 0", "bob 1"]
    assert day.turns.seconds() == pytest.approx(0.001)
    day.now += 0.001
    assert day.served() == ["ada 1", "ada 2"]


def test_the_usual_wait_for_a_cpu_is_followed_by_no_rest(day: Day):
    day.add(ADA, "first", "second")
    first = day.turns.take()
    assert first is not None
    day.turns.end(first, delay=0.0004)
    assert day.served() == ["second"]


def test_no_rest_is_longer_than_a_twentieth_of_a_second(day: Day):
    day.add(ADA, "first", "second")
    first = day.turns.take()
    assert first is not None
    day.turns.end(first, delay=60.0)
    assert day.turns.seconds() == pytest.approx(0.05)


def test_a_callers_tasks_begin_one_after_the_other(day: Day):
    """The next one begins when the one before has ended, waits, or takes long."""
    day.add(ADA, *(f"{number}" for number in range(4)))
    first = day.turns.take()
    assert first is not None
    assert day.turns.take() is None
    assert day.turns.end(first, waits=True)
    second = day.turns.take()
    assert second is not None
    assert day.turns.take() is None
    assert not day.turns.end(first)
    assert day.turns.take() is None
    day.now += 0.1
    assert day.turns.take() is not None
    assert not day.turns.end(second)


def test_reports_begin_one_after_the_other_with_a_pause(day: Day):
    day.add(REPORT, "first", "second", "third")
    assert day.served(0.001) == ["first"]
    assert day.turns.seconds() == pytest.approx(0.003)
    day.now += 0.003
    assert day.served(0.02) == ["second", "third"]


def test_nothing_is_kept_of_callers_that_are_gone(day: Day):
    for number in range(100):
        day.add(Caller(CallerKind.KNOWN, f"{number}"), "task")
    day.served()
    assert not [each for each in reached(day.turns) if isinstance(each, Named)]
    day.now += 3600.0
    day.add(BOB, "late")
    day.served()
    assert [each for each in reached(day.turns) if isinstance(each, Caller)] == [BOB]


def test_a_user_is_known_by_any_token_after_its_first_request(served: Served):
    """Someone who makes up tokens stays a stranger."""
    assert served.server.listener is not None
    request, known = Parser(Adjustments()), []
    for token in (served.ada.token, "made-up"):
        with served.send(served.request("GET", "/api/v0/user", token=False)[:-2] + bearer(token)):
            pass
        request.path, request.headers = "/", {"AUTHORIZATION": f"Bearer {token}"}
        known.append(served.server.listener.callers.of(request, "192.0.2.1"))
    assert known == [Caller(CallerKind.KNOWN, served.ada.user.uuid), NEAR]


def test_a_proxy_tells_the_address_of_a_stranger() -> None:
    callers = Callers(ClientAddresses(("10.0.0.7",)))
    request = Parser(Adjustments())
    request.path, request.headers = "/login", {"X_FORWARDED_FOR": "192.0.2.1, 192.0.2.2"}
    assert callers.of(request, "10.0.0.7") == FAR
    assert callers.of(request, "10.0.0.8").who == "10.0.0.8"


def bearer(token: str) -> bytes:
    return f"Authorization: Bearer {token}\r\n\r\n".encode()
