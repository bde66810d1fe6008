"""Control groups whose VM ends while another thread uses them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from actors.vms.host.control_groups import SERVICE_LIMITS, Hierarchy, VmLimits, remove_groups

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROUNDS = 300


@pytest.fixture
def limits() -> VmLimits:
    return VmLimits.of_host(100)


@pytest.fixture
def group(limits: VmLimits) -> Iterator[str]:
    name = f"ci-daemon-test-{uuid4()}"
    yield name
    remove_groups(limits.groups(name))


def test_a_weight_is_set_while_the_group_is_removed(limits: VmLimits, group: str):
    """The file of the weight may be open when the group goes."""

    def make_and_remove() -> None:
        for _ in range(_ROUNDS):
            limits.make_groups(group, SERVICE_LIMITS)
            remove_groups(limits.groups(group))

    with ThreadPoolExecutor(1) as thread:
        removing = thread.submit(make_and_remove)
        while not removing.done():
            limits.set_weight(group, 50)
        removing.result()


def test_half_the_weight_is_half_of_the_usual_one(limits: VmLimits, group: str):
    limits.make_groups(group, SERVICE_LIMITS)
    assert weights(limits, group) == [usual_weight(each) for each in hierarchies(limits)]
    limits.set_weight(group, 50)
    assert weights(limits, group) == [usual_weight(each) // 2 for each in hierarchies(limits)]


def hierarchies(limits: VmLimits) -> list[Hierarchy]:
    return [each for each in limits.hierarchies if "cpu" in each.controllers]


def usual_weight(hierarchy: Hierarchy) -> int:
    return 1024 if hierarchy.version == 1 else 100


def weights(limits: VmLimits, group: str) -> list[int]:
    files = {1: "cpu.shares", 2: "cpu.weight"}
    return [int((each.folder(group) / files[each.version]).read_text()) for each in hierarchies(limits)]
