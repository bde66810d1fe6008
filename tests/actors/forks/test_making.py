"""Forks take parked VMs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actors.forks import Forks
from actors.vms import Images, Provider, VmError, VmSpec
from storage import Build, Lease, LeaseState
from tests.actors.conftest import Host
from tests.e2e.pipelines import one
from tests.waiting import until


class Forking:
    """A host with a parked VM, and a failed build whose job has left a disk."""

    def __init__(self, host: Host) -> None:
        self.host, self.storage, self.provider = host, host.storage, host.provider
        self.forks = Forks(
            host.storage,
            host.providers,
            host.images,
            host.clock,
            lambda: host.settings,
            lambda: None,
            take_parked=host.engine.addresses.pool.ask,
        )
        self.build: Build = host.finish(host.build(one("exit 1")))
        self.parked = until(self.another, "a parked VM")

    def another(self) -> Lease | None:
        leases = [lease for lease in self.storage.leases.live() if lease.state is LeaseState.PARKED]
        return leases[0] if leases else None

    def make(self, held: Callable[[int], None] = lambda _: None) -> Lease:
        job = self.host.job(self.build)
        fork = self.forks.make(self.build, job, before=False, seconds=60, opened_by="ann", held=held)
        assert self.storage.holds.of_lease(fork.lease.id) is not None
        fork.link.disconnect()
        return fork.lease


@pytest.fixture
def forking(tmp_path: Path, provider: Provider, images: Images) -> Iterator[Forking]:
    host = Host(tmp_path, provider, images, parked=1)
    host.engine.start()
    yield Forking(host)
    host.close()


def test_a_fork_takes_a_parked_vm_and_another_is_parked(forking: Forking):
    lease = forking.make()
    assert (lease.uuid, lease.organization_id) == (forking.parked.uuid, forking.build.organization_id)
    assert not forking.provider.parked(lease.uuid)
    assert forking.storage.leases.assign_preview(lease.id, "debian:12", lease.shape) is None
    until(forking.another, "another parked VM")
    forking.forks.end(lease)
    assert lease.uuid not in forking.provider.list()


def test_a_parked_vm_that_no_fork_may_have_is_destroyed(forking: Forking):
    """Nobody else knows of it any more."""

    def refuse(_: int) -> None:
        raise PermissionError("no more forks")

    with pytest.raises(PermissionError):
        forking.make(refuse)
    ended = forking.storage.leases.get(forking.parked.id)
    assert ended is not None
    assert ended.state is LeaseState.ENDED
    assert forking.parked.uuid not in forking.provider.list()


def test_a_parked_vm_that_takes_no_disk_is_made_anew(forking: Forking, monkeypatch: pytest.MonkeyPatch):
    def lose(spec: VmSpec) -> None:
        monkeypatch.undo()
        raise VmError(f"{spec.id} is lost")

    monkeypatch.setattr(forking.provider, "attach", lose)
    lease = forking.make()
    assert lease.uuid == forking.parked.uuid
    forking.forks.end(lease)


def test_a_fork_is_made_where_no_vm_is_ready(forking: Forking):
    forking.storage.leases.end(forking.parked.id)
    lease = forking.make()
    assert lease.uuid != forking.parked.uuid
    forking.forks.end(lease)


def test_a_fork_that_ends_while_it_is_made_leaves_no_vm(forking: Forking, monkeypatch: pytest.MonkeyPatch):
    """Its end, as by the close of a terminal, finds no VM: the thread that makes it destroys it."""
    forking.storage.leases.end(forking.parked.id)
    create, ended = forking.provider.create, list[str]()

    def ending(spec: VmSpec) -> None:
        lease = forking.storage.leases.by_uuid(spec.id)
        if lease is not None and lease.is_fork:
            forking.forks.end(lease)
            ended.append(lease.uuid)
        create(spec)

    monkeypatch.setattr(forking.provider, "create", ending)
    with pytest.raises(VmError, match="it was ended while it was made"):
        forking.make()
    assert len(ended) == 1
    assert ended[0] not in forking.provider.list()
