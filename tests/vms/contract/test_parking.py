"""Parked VMs: made without a disk, attached to one, given up."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import pytest

from actors.vms import (
    CommandSpec,
    Connection,
    ConnectionLost,
    ImageNotFound,
    Provider,
    SnapshotNotFound,
    VmError,
    VmLost,
    VmSpec,
    start,
)
from storage import SystemClock
from tests.actors.vms.commands import TIMEOUT, ended, run_in_job
from tests.vms.contract.conftest import Boot, Vm, park
from tests.vms.contract.hosts import IMAGE, Host
from tests.waiting import until

SPEC = VmSpec("vm", IMAGE, network=False)


@pytest.fixture
def parked(provider: Provider) -> Vm:
    park(provider, SPEC.id)
    return Vm(provider, SPEC.id)


@pytest.mark.parks
def test_a_parked_vm_is_listed_but_not_alive_until_attached(parked: Vm, provider: Provider):
    assert list(provider.list()) == [parked.id]
    assert (provider.parked(parked.id), provider.alive(parked.id)) == (True, False)
    provider.attach(SPEC)
    assert list(provider.list()) == [parked.id]
    assert (provider.parked(parked.id), provider.alive(parked.id)) == (False, True)
    provider.destroy(parked.id)
    assert list(provider.list()) == []
    assert (provider.parked(parked.id), provider.alive(parked.id)) == (False, False)


@pytest.mark.parks
@pytest.mark.essential
def test_an_unknown_vm_is_not_parked_and_cannot_be_attached(provider: Provider):
    assert not provider.parked("never-made")
    with pytest.raises(VmLost):
        provider.attach(VmSpec("never-made", IMAGE, network=False))
    assert list(provider.list()) == []


@pytest.mark.parks
@pytest.mark.essential
def test_an_open_connection_goes_on_and_reaches_the_disk(parked: Vm, provider: Provider):
    with parked.connect() as connection:
        assert connection.run("echo parked", timeout=TIMEOUT).stdout == b"parked\n"
        provider.attach(SPEC)
        assert run_in_job(connection, "echo here > /workspace/file; cat /workspace/file").stdout == b"here\n"
        start(connection, CommandSpec("cat file; exit 3"))
        assert ended(connection).exit_code == 3
    assert parked.run("cat /workspace/file") == (0, b"here\n")


@pytest.mark.parks
def test_a_connection_opened_while_parked_may_be_used_later(parked: Vm, provider: Provider):
    endpoint = provider.connect(parked.id)
    provider.attach(SPEC)
    with Connection(endpoint, SystemClock(), timeout=TIMEOUT) as connection:
        assert run_in_job(connection, "echo well").stdout == b"well\n"


def test_a_parked_vm_takes_any_snapshot(boot: Boot, parked: Vm, provider: Provider):
    parent = boot()
    parent.run("echo parent > /workspace/file")
    provider.attach(VmSpec(parked.id, IMAGE, parent.snapshot("taken"), network=False))
    assert parked.run("cat /workspace/file") == (0, b"parent\n")


@pytest.mark.real
def test_parked_vms_have_the_hosts_time_and_random_numbers(provider: Provider):
    """Also if they are copies of one that was saved."""
    seen = set()
    for name in ("one", "other"):
        park(provider, name)
        provider.attach(VmSpec(name, IMAGE, network=False))
        before = time.time()
        clock, *random = Vm(provider, name).says("date +%s.%N; od -An -N16 -tx8 /dev/urandom").split(maxsplit=1)
        assert before - 1 < float(clock) < time.time() + 1
        seen.update(random)
    assert len(seen) == 2


@pytest.mark.parametrize("parks_again", [pytest.param(True, marks=pytest.mark.parks), False])
def test_a_vm_in_use_can_neither_be_parked_nor_attached_again(parked: Vm, provider: Provider, parks_again: bool):
    provider.attach(SPEC)
    parked.run("echo kept > /workspace/file")
    with pytest.raises(VmError, match="already"):
        provider.park(SPEC.id) if parks_again else provider.attach(SPEC)
    assert provider.alive(parked.id)
    assert parked.run("cat /workspace/file") == (0, b"kept\n")


@pytest.mark.parks
def test_a_parked_vm_cannot_be_parked_again(parked: Vm, provider: Provider):
    with pytest.raises(VmError, match="already"):
        provider.park(parked.id)
    assert provider.parked(parked.id)


@pytest.mark.parks
@pytest.mark.parametrize(
    ("spec", "error"),
    [
        (VmSpec("vm", "none:1", network=False), ImageNotFound),
        (VmSpec("vm", IMAGE, "none", network=False), SnapshotNotFound),
    ],
)
def test_an_unknown_image_or_snapshot_leaves_nothing_of_the_vm(
    parked: Vm, provider: Provider, spec: VmSpec, error: type[VmError]
):
    with parked.connect() as connection:
        with pytest.raises(error):
            provider.attach(spec)
        with pytest.raises(ConnectionLost):
            connection.run("true", timeout=TIMEOUT)
    assert list(provider.list()) == []


@pytest.mark.parks
@pytest.mark.essential
def test_a_parked_vm_outlives_its_provider(parked: Vm, provider: Provider, host: Host):
    with parked.connect() as connection:
        provider.close()
        other = host.open()
        assert list(other.list()) == [parked.id]
        assert other.parked(parked.id)
        other.attach(SPEC)
        assert other.alive(parked.id)
        assert run_in_job(connection, "echo same").stdout == b"same\n"
    assert Vm(other, parked.id).run("echo anew") == (0, b"anew\n")


@pytest.mark.parks
def test_a_parked_vm_has_nothing_on_a_disk_and_no_snapshot(parked: Vm, provider: Provider):
    assert provider.disk(parked.id).bytes < 1 << 20
    with pytest.raises(VmError):
        provider.snapshot(parked.id, "taken")
    assert list(provider.snapshots()) == []
    provider.destroy(parked.id)
    assert list(provider.list()) == []


@pytest.mark.parametrize("awaited", [True, False])
def test_a_vm_destroyed_while_it_is_parked_leaves_nothing(provider: Provider, awaited: bool):
    def park() -> None:
        with suppress(VmError):
            provider.park("vm")

    parking = threading.Thread(target=park)
    parking.start()
    until(lambda: "vm" in provider.list() or not parking.is_alive(), "the parking")
    if awaited:
        provider.weigh("vm", 100)
    provider.destroy("vm")
    parking.join(TIMEOUT)
    assert not parking.is_alive()
    assert list(provider.list()) == []


@pytest.mark.parks
def test_a_vm_destroyed_while_it_is_attached_leaves_nothing(parked: Vm, provider: Provider):
    def attach() -> None:
        with suppress(VmError):
            provider.attach(SPEC)

    attaching = threading.Thread(target=attach)
    attaching.start()
    until(lambda: not provider.parked("vm"), "the attach")
    provider.destroy("vm")
    attaching.join(TIMEOUT)
    assert not attaching.is_alive()
    assert list(provider.list()) == []


def test_weighing_and_destroying_are_always_fine(provider: Provider):
    for act in (lambda _: None, provider.park, lambda _: provider.attach(SPEC), provider.destroy):
        act("vm")
        provider.weigh("vm", 50)
    provider.destroy("vm")
    assert list(provider.list()) == []
