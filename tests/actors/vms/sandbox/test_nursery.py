"""The process that VMs are forked from: VMs outlive it, and another one takes its place."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.vms.sandbox import IdMap
from actors.vms.sandbox.nursery import Nursery
from actors.vms.sandbox.userns import MappedFailed
from tests.actors.vms.sandbox.conftest import Boot, Host
from tests.e2e.daemon import until

GRANDPARENT = "read -r _ _ _ parent _ </proc/$PPID/stat; echo $parent"


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


def process_of(nursery: Nursery, idmap: IdMap) -> int:
    return int(nursery.run_inside(["sh", "-c", GRANDPARENT], idmap, Path("/")))


def gone(pid: int) -> bool | None:
    return None if Path(f"/proc/{pid}").exists() else True


def test_programs_run_as_root_of_the_vms_and_say_how_they_ended(nursery: Nursery, idmap: IdMap) -> None:
    shown = nursery.run_inside(["sh", "-c", "pwd; id -u; cat; cat /proc/self/uid_map"], idmap, Path("/usr"))
    assert shown.split() == [b"/usr", b"0", *str(idmap.uids[0]).encode().split()]
    with pytest.raises(MappedFailed, match="ended with 3: aside"):
        nursery.run_inside(["sh", "-c", "echo aside >&2; exit 3"], idmap, Path("/"))
    with pytest.raises(MappedFailed, match="No such file"):
        nursery.run_inside(["no-such-program"], idmap, Path("/"))
    with pytest.raises(MappedFailed, match="ended with 137"):
        nursery.run_inside(["sh", "-c", "kill -KILL $$"], idmap, Path("/"))


def test_one_process_serves_and_another_takes_its_place(nursery: Nursery, idmap: IdMap) -> None:
    first = process_of(nursery, idmap)
    assert process_of(nursery, idmap) == first
    os.kill(first, signal.SIGKILL)
    until(lambda: gone(first), "the process's end")
    assert process_of(nursery, idmap) != first


def test_it_ends_with_who_asks_and_leaves_no_child_waiting(nursery: Nursery, idmap: IdMap) -> None:
    process = process_of(nursery, idmap)
    children = Path(f"/proc/{process}/task/{process}/children")
    until(lambda: True if not children.read_text() else None, "the end of its children")
    nursery.close()
    until(lambda: gone(process), "its end")


def test_vms_outlive_it_and_are_found_by_the_next(host: Host, boot: Boot) -> None:
    provider = host.provider()
    vm = boot(provider=provider)
    provider.close()
    assert vm.says("echo well") == "well"
    other = boot(provider=provider)
    assert other.says("echo well") == "well"
    provider.destroy(vm.id)
    assert list(provider.list()) == [other.id]
