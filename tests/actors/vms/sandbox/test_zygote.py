"""The process that VMs are forked from: VMs outlive it, and another one takes its place."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.vms.host import IdMap
from actors.vms.host.ids import MappedProgramFailed
from actors.vms.host.zygote import Zygote
from tests.actors.vms.sandbox.conftest import Boot, Host
from tests.waiting import until

GRANDPARENT = "read -r _ _ _ parent _ </proc/$PPID/stat; echo $parent"


@pytest.fixture
def zygote() -> Iterator[Zygote]:
    zygote = Zygote()
    yield zygote
    zygote.close()


def process_of(zygote: Zygote, idmap: IdMap) -> int:
    return int(zygote.run_mapped(["sh", "-c", GRANDPARENT], idmap, Path("/")))


def gone(pid: int) -> bool | None:
    return None if Path(f"/proc/{pid}").exists() else True


def test_programs_run_as_root_of_the_vms_and_say_how_they_ended(zygote: Zygote, idmap: IdMap) -> None:
    shown = zygote.run_mapped(["sh", "-c", "pwd; id -u; cat; cat /proc/self/uid_map"], idmap, Path("/usr"))
    assert shown.split() == [b"/usr", b"0", *str(idmap.uids[0]).encode().split()]
    with pytest.raises(MappedProgramFailed, match="failed with status 3: aside"):
        zygote.run_mapped(["sh", "-c", "echo aside >&2; exit 3"], idmap, Path("/"))
    with pytest.raises(MappedProgramFailed, match="No such file"):
        zygote.run_mapped(["no-such-program"], idmap, Path("/"))
    with pytest.raises(MappedProgramFailed, match="failed with status 137"):
        zygote.run_mapped(["sh", "-c", "kill -KILL $$"], idmap, Path("/"))


def test_programs_get_the_callers_files(zygote: Zygote, idmap: IdMap, tmp_path: Path) -> None:
    files = [os.open(tmp_path / name, os.O_WRONLY | os.O_CREAT) for name in ("one", "other")]
    try:
        zygote.run_mapped(["sh", "-c", "echo 3 >&3; echo 4 >&4; ! echo 5 >&5"], idmap, tmp_path, files)
    finally:
        for each in files:
            os.close(each)
    assert [(tmp_path / name).read_text() for name in ("one", "other")] == ["3\n", "4\n"]


def test_one_process_serves_and_another_takes_its_place(zygote: Zygote, idmap: IdMap) -> None:
    first = process_of(zygote, idmap)
    assert process_of(zygote, idmap) == first
    os.kill(first, signal.SIGKILL)
    until(lambda: gone(first), "the process's end")
    assert process_of(zygote, idmap) != first


def test_it_ends_with_its_caller_and_leaves_no_zombie(zygote: Zygote, idmap: IdMap) -> None:
    process = process_of(zygote, idmap)
    children = Path(f"/proc/{process}/task/{process}/children")

    def waiting() -> int | None:
        """Return its only child, which waits for the next request; None if there are others."""
        running = children.read_text().split()
        return int(running[0]) if len(running) == 1 else None

    child = until(waiting, "the end of its other children")
    zygote.close()
    until(lambda: gone(process), "its end")
    until(lambda: gone(child), "the end of the child that waited")


def test_vms_outlive_it_and_are_found_by_the_next(host: Host, boot: Boot) -> None:
    provider = host.provider()
    vm = boot(provider=provider)
    provider.close()
    assert vm.says("echo well") == "well"
    other = boot(provider=provider)
    assert other.says("echo well") == "well"
    provider.destroy(vm.id)
    assert list(provider.list()) == [other.id]
