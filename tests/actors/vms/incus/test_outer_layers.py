"""The wait for the engine's agent in a machine that boots."""

from __future__ import annotations

from typing import cast

import pytest

from actors.vms.incus import outer_layers
from actors.vms.incus.instances import MACHINES, Instances
from actors.vms.incus.outer_images import OuterImages
from actors.vms.incus.outer_layers import OuterLayers
from actors.vms.provider import VmError

BOOT_SECONDS = 60.0
LOOK_SECONDS = 1.0


class BusyMember:
    """A member that tells of a machine in a second of the only processor, on which the machine boots."""

    def __init__(self) -> None:
        self.now = 0.0
        self.looks = 0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def runs_programs(self, _: str) -> bool:
        self.looks += 1
        self.now += LOOK_SECONDS
        return self.now - self.looks * LOOK_SECONDS >= BOOT_SECONDS


@pytest.fixture
def member(monkeypatch: pytest.MonkeyPatch) -> BusyMember:
    busy = BusyMember()
    monkeypatch.setattr(outer_layers, "time", busy)
    return busy


def layers_on(member: BusyMember) -> OuterLayers:
    return OuterLayers(cast("Instances", member), cast("OuterImages", None), MACHINES)


def test_looks_leave_a_busy_member_most_of_its_time(member: BusyMember):
    layers_on(member).await_programs("machine", 1000)
    assert member.now <= BOOT_SECONDS * 1.5


def test_a_machine_that_never_runs_the_agent_is_given_up(member: BusyMember):
    with pytest.raises(VmError, match="did not start the engine's agent within 30 s"):
        layers_on(member).await_programs("machine", 30)
    assert member.now < 40
