"""Faults of an engine and of its users, under VMs of the provider `incus`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest

from actors.vms import VmError, VmSpec
from actors.vms.images import ImageStore
from actors.vms.incus import Engine, EngineAway, IncusProvider, access_of, engine
from actors.vms.incus.exec_streams import ExecStreams
from actors.vms.incus.refusals import EngineError
from ci_daemon.config import load
from ci_daemon.engine import prepare_engine
from storage import Shape, SystemClock
from tests.fleet.certificate import Certificate
from tests.fleet.engine import INCUS
from tests.fleet.fleet import POOL, Fleet
from tests.fleet.prepared_cluster import prepare, provider_of, says
from tests.waiting import until

_POOL_BYTES = 3 << 30
_RUNS_SECONDS, _STANDS_SECONDS = 0.2, 0.6
_DEEP = "cd /workspace; for _ in $(seq 20); do mkdir $(printf %0250d 1) && cd -P $(printf %0250d 1); done; echo made"
_PROGRAMS, _AT_ONCE = 200, 8
_MOUNT_HOOK = "/usr/share/lxcfs/lxc.mount.hook"
_ENGINE = "$(pgrep -xf '/usr/libexec/incus/incusd --group root')"


@pytest.fixture(scope="module")
def alone() -> Iterator[Fleet]:
    """A member alone with a small disk, in whose network the tests of this module run."""
    with Fleet(INCUS, pool_bytes=_POOL_BYTES) as fleet, fleet.switch.entered():
        yield fleet


@pytest.fixture
def state(tmp_path: Path, alone: Fleet) -> Path:
    prepare(alone, tmp_path / "state")
    return tmp_path / "state"


@pytest.fixture
def provider(state: Path, image_store: ImageStore) -> Iterator[IncusProvider]:
    """VMs on the member; all end with the test."""
    with provider_of(state, image_store) as made:
        yield made
        for vm_id in made.list():
            made.destroy(vm_id)


def test_a_vm_runs_on_while_its_engine_is_away(alone: Fleet, provider: IncusProvider) -> None:
    """Nothing is declared lost while nobody can tell."""
    provider.create(spec("vm-1"))
    assert says(provider, "vm-1", "touch /run/mark; echo made") == "made"
    alone.members[0].kill_engine()
    with pytest.raises(EngineAway):
        provider.alive("vm-1")
    alone.members[0].start_engine()
    assert provider.alive("vm-1")
    assert says(provider, "vm-1", "test -e /run/mark && echo kept") == "kept"


def test_programs_that_end_at_once_harm_no_engine(state: Path, provider: IncusProvider) -> None:
    """Incus may crash on a stream that is opened when its program has ended; of so many, some would be so."""
    provider.create(spec("vm-1"))
    settings = load(state, {}).incus
    with closing(Engine(access_of(state / "incus", settings), settings.project)) as engine:
        streams = ExecStreams(engine)

        def end_at_once(_: int) -> None:
            streams.start("ci-vm-vm-1", ["/missing"]).close()

        with ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(end_at_once, range(_PROGRAMS)))
    assert provider.alive("vm-1")


def test_an_engine_that_does_not_answer_in_time_loses_no_vm(alone: Fleet, provider: IncusProvider) -> None:
    provider.create(spec("vm-1"))
    alone.members[0].run(f"kill -STOP {_ENGINE}")
    try:
        with pytest.raises(EngineAway):
            provider.alive("vm-1")
    finally:
        alone.members[0].run(f"kill -CONT {_ENGINE}")
    assert provider.alive("vm-1")


def test_an_operation_may_take_longer_than_one_wait(
    state: Path, provider: IncusProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.create(spec("vm-1"))
    settings = load(state, {}).incus
    monkeypatch.setattr(engine, "_WAIT_SECONDS", 1)
    with closing(Engine(access_of(state / "incus", settings), settings.project)) as asked:
        sleep = {"command": ["sleep", "4"], "wait-for-websocket": False, "interactive": False}
        begun = time.monotonic()
        assert asked.do("POST", "/1.0/instances/ci-vm-vm-1/exec", sleep)["return"] == 0
        assert time.monotonic() - begun > 3
        with pytest.raises(EngineError, match="did not complete"):
            asked.do("POST", "/1.0/instances/ci-vm-vm-1/exec", sleep, seconds=2)


def test_a_slow_engine_loses_no_vm(alone: Fleet, provider: IncusProvider) -> None:
    """It stands still for three quarters of the time, while a VM is made, used and destroyed."""
    provider.create(spec("first"))  # the engine takes the images
    member, ended = alone.members[0], Event()

    def stutter() -> None:
        while not ended.wait(_RUNS_SECONDS):
            member.run(f"kill -STOP {_ENGINE}")
            ended.wait(_STANDS_SECONDS)
            member.run(f"kill -CONT {_ENGINE}")

    with ThreadPoolExecutor() as threads:
        stuttering = threads.submit(stutter)
        try:
            provider.create(spec("vm-1"))
            assert says(provider, "vm-1", "echo made") == "made"
            assert provider.alive("vm-1")
            provider.destroy("vm-1")
            assert provider.list() == ["first"]
        finally:
            ended.set()
            stuttering.result()


def test_a_vm_is_listed_until_it_was_really_destroyed(alone: Fleet, provider: IncusProvider) -> None:
    provider.create(spec("vm-1"))
    alone.members[0].kill_engine()
    with pytest.raises(EngineAway):
        provider.destroy("vm-1")
    alone.members[0].start_engine()
    assert provider.list() == ["vm-1"]
    provider.destroy("vm-1")
    assert provider.list() == []
    assert alone.members[0].run("incus list --project ci --format csv") == ""


def test_an_instance_that_does_not_start_says_why_and_is_removed(alone: Fleet, provider: IncusProvider) -> None:
    provider.create(spec("first"))  # the engine takes the images
    member = alone.members[0]
    member.run(f"chmod -x {_MOUNT_HOOK}")
    try:
        with pytest.raises(VmError, match=r"(?s)^instance ci-vm-vm-1 does not start: .*Failed to run mount hooks"):
            provider.create(spec("vm-1"))
    finally:
        member.run(f"chmod +x {_MOUNT_HOOK}")
    assert provider.list() == ["first"]
    assert member.run("incus list --project ci --format csv --columns n").split() == ["ci-vm-first"]
    provider.create(spec("vm-1"))
    assert says(provider, "vm-1", "echo made") == "made"


def test_an_instance_that_others_removed_is_a_lost_vm(alone: Fleet, provider: IncusProvider) -> None:
    provider.create(spec("vm-1"))
    alone.members[0].run("incus delete --force --project ci ci-vm-vm-1")
    until(lambda: not provider.alive("vm-1"), "the loss of the VM")
    provider.destroy("vm-1")
    assert provider.list() == []


def test_an_image_that_others_removed_is_sent_again(alone: Fleet, provider: IncusProvider) -> None:
    """The outer layer's, which the service had found there before."""
    provider.create(spec("vm-1"))
    listed = alone.members[0].run("incus image list --project ci --format csv --columns f").split()
    alone.members[0].run(f"incus image delete --project ci {' '.join(listed)}")
    provider.create(spec("vm-2"))
    assert says(provider, "vm-2", "echo made") == "made"


def test_an_instance_of_others_with_a_vms_name_is_left_alone(alone: Fleet, provider: IncusProvider) -> None:
    member = alone.members[0]
    member.run("incus init --empty --project ci --profile ci ci-vm-taken")
    try:
        with pytest.raises(VmError, match="not this service's"):
            provider.create(spec("taken"))
        provider.destroy("taken")
        assert "ci-vm-taken" in member.run("incus list --project ci --format csv --columns n")
    finally:
        member.run("incus delete --force --project ci ci-vm-taken")


def test_a_full_pool_refuses_a_vm_and_takes_one_when_it_has_room(provider: IncusProvider) -> None:
    provider.create(spec("vm-1"))
    filled = says(provider, "vm-1", "dd if=/dev/urandom of=/workspace/filling bs=1M 2>&1 | grep -c 'No space left'")
    assert filled == "1"
    with pytest.raises(VmError, match=r"(?i)no space left"):
        provider.create(spec("vm-2"))
    provider.destroy("vm-1")
    assert provider.list() == []
    until(lambda: _created(provider, "vm-2"), "room for another VM", 120.0)  # btrfs frees what is removed later
    assert says(provider, "vm-2", "echo made") == "made"


@pytest.mark.parametrize("begins_in_days", [-3, 1], ids=["expired", "not valid yet"])
def test_a_certificate_out_of_its_time_loses_no_vm(
    begins_in_days: int, state: Path, provider: IncusProvider, image_store: ImageStore, tmp_path: Path, alone: Fleet
) -> None:
    """A member whose clock is wrong sees it so, too. The setup makes another one."""
    provider.create(spec("vm-1"))
    begin = SystemClock().now() + timedelta(days=begins_in_days)
    wrong = Certificate.of_time(tmp_path, begin, begin + timedelta(days=2))
    wrong.file.rename(state / "incus/client.crt")
    wrong.key.rename(state / "incus/client.key")
    with provider_of(state, image_store) as later, pytest.raises(EngineAway, match="incus setup"):
        later.alive("vm-1")
    config = load(state, {})
    on_socket = replace(config.incus, addresses=(), socket=alone.members[0].socket, storage=POOL)
    prepare_engine(state, replace(config, incus=on_socket), None, SystemClock().now())
    with provider_of(state, image_store) as renewed:
        assert renewed.alive("vm-1")
        assert says(renewed, "vm-1", "echo still here") == "still here"


def test_a_disk_that_lxd_cannot_copy_is_refused_in_words(
    image_store: ImageStore, lone_lxd: Fleet, tmp_path: Path
) -> None:
    """LXD gives each file to the instance that has it, by its whole path; Incus maps the ids."""
    with lone_lxd.switch.entered():
        prepare(lone_lxd, tmp_path / "lxd")
        with provider_of(tmp_path / "lxd", image_store) as provider:
            provider.create(spec("vm-1"))
            says(provider, "vm-1", _DEEP)
            provider.snapshot("vm-1", "deep")
            provider.destroy("vm-1")
            with pytest.raises(VmError, match=r"path of more than 4,096 bytes: lstat .{150,250}$"):
                provider.create(replace(spec("vm-2"), snapshot="deep"))
            assert list(provider.list()) == []


def _created(provider: IncusProvider, vm_id: str) -> bool:
    try:
        provider.create(spec(vm_id))
    except VmError:
        return False
    return True


def spec(vm_id: str) -> VmSpec:
    return VmSpec(vm_id, "debian:12", None, Shape(memory_gb=1), False)
