"""The open connections to parked VMs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from actors.scheduling.parked_vms import ParkedConnections


@dataclass(eq=False)
class Line:
    """A connection that is only open or closed."""

    alive: bool = True

    def close(self) -> None:
        self.alive = False


class TestConnections:
    @pytest.fixture
    def connections(self) -> ParkedConnections:
        return ParkedConnections()

    def test_who_takes_one_waits_for_it(self, connections: ParkedConnections):
        connections.expect("vm")
        taken: list[object] = []
        taker = threading.Thread(target=lambda: taken.append(connections.take("vm")))
        taker.start()
        line: Any = Line()
        connections.add("vm", line)
        taker.join(60)
        assert taken == [line]
        assert line.alive
        assert connections.take("vm") is None

    def test_of_a_vm_that_was_never_parked_there_is_none(self, connections: ParkedConnections):
        assert connections.take("vm") is None

    def test_one_that_is_no_longer_expected_is_closed(self, connections: ParkedConnections):
        line: Any = Line()
        connections.expect("vm")
        connections.discard("vm")
        connections.add("vm", line)
        assert not line.alive
        assert connections.take("vm") is None

    def test_one_that_is_discarded_is_closed(self, connections: ParkedConnections):
        line: Any = Line()
        connections.expect("vm")
        connections.add("vm", line)
        connections.discard("vm")
        connections.discard("vm")
        assert not line.alive

    def test_one_that_died_meanwhile_is_not_given(self, connections: ParkedConnections):
        line: Any = Line(alive=False)
        connections.expect("vm")
        connections.add("vm", line)
        assert connections.take("vm") is None

    def test_whatever_comes_first_none_is_left_open(self, connections: ParkedConnections):
        """One thread adds, one takes, one discards."""
        for number in range(300):
            vm, line, barrier = f"vm-{number}", Line(), threading.Barrier(3)
            taken: list[object] = []
            connections.expect(vm)
            calls: list[Callable[[], object]] = [
                lambda vm=vm, line=line: connections.add(vm, line),  # type: ignore[misc]
                lambda vm=vm, taken=taken: taken.append(connections.take(vm)),  # type: ignore[misc]
                lambda vm=vm: connections.discard(vm),  # type: ignore[misc]
            ]
            threads = [
                threading.Thread(target=lambda call=call, barrier=barrier: (barrier.wait(60), call()))  # type: ignore[misc]
                for call in calls
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            assert taken in ([line], [None])
            assert line.alive <= (taken == [line])
            assert connections.take(vm) is None
