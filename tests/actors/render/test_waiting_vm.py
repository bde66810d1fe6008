"""The VM that waits for the next render with the DSL loaded."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from actors.parts import VmParts
from actors.render.discovery import ArchiveRenderer, SourceArchive
from actors.render.vm import RenderVm, VmWanted, WaitingVm
from actors.settings import EngineSettings, LiveSettings
from actors.vms import update_workspace, write_source_manifest_confined
from storage import LeaseState
from storage.files import Confinement
from tests.actors.conftest import Host
from tests.clock import LaterClock, ManualClock
from tests.e2e.sources import HELLO, pipeline_file
from tests.waiting import until

pytestmark = pytest.mark.sandbox
ACME, OTHER = 1, 2


class Waiting:
    """A waiting VM, its settings and its clock."""

    def __init__(self, host: Host) -> None:
        self.storage, self.provider = host.storage, host.provider
        self.clock = ManualClock()
        self.short = threading.Event()
        self.settings = LiveSettings(with_parked(host.settings, 1))
        self.wanted = VmWanted("sandbox", host.images.resolve(None), host.settings.render)
        parts = VmParts(
            storage=host.storage,
            clock=self.clock,
            live_settings=self.settings,
            providers=host.providers,
            images=host.images,
        )
        self.vm = WaitingVm(parts, memory_is_short=self.short.is_set)

    def make(self) -> str:
        """Make the VM as after a render; return its name."""
        assert self.vm.take(self.wanted, ACME) is None
        self.vm.make()
        (lease,) = self.storage.leases.live()
        return lease.uuid

    def is_gone(self) -> bool:
        """Tell whether neither a VM nor a lease is left."""
        return list(self.provider.list()) == [] and self.storage.leases.live() == []


def with_parked(settings: EngineSettings, parked: int) -> EngineSettings:
    """Return settings with so many parked VMs."""
    return replace(settings, pool=replace(settings.pool, parked=parked))


@pytest.fixture
def waiting(host: Host) -> Iterator[Waiting]:
    made = Waiting(host)
    yield made
    made.vm.discard()


def envelope_of(vm: RenderVm, folder: Path, organization: str) -> str:
    """Render a source in a VM."""
    archive, manifest = folder / "source.tar.gz", folder / "manifest"
    archive.write_bytes(pipeline_file(f"import os; print(os.environ['HM_PIPELINE_SLUG'])\n{HELLO}"))
    with closing(Confinement()) as confinement:
        write_source_manifest_confined(confinement, organization, archive, manifest, 2**30)
    update_workspace(vm.link.connected(), archive, manifest, time=0, timeout=30)
    rendered = vm.loader.load(organization, "the-slug")
    assert rendered.log == b"the-slug\n"
    return rendered.envelope


def test_it_renders_for_whoever_takes_it(waiting: Waiting, tmp_path: Path):
    name = waiting.make()
    assert waiting.vm.is_there
    vm = waiting.vm.take(waiting.wanted, ACME)
    assert vm is not None
    with closing(vm):
        assert vm.lease.uuid == name
        assert not waiting.vm.is_there
        assert json.loads(envelope_of(vm, tmp_path, "acme"))["pipelines"][0]["slug"] == "demo"
    assert waiting.is_gone()


@pytest.mark.parametrize("is_lost", [False, True], ids=["waits", "lost"])
def test_an_archive_without_a_build_is_rendered_in_it(waiting: Waiting, host: Host, is_lost: bool):
    """Or in another VM if its lease was ended."""
    name = waiting.make()
    if is_lost:
        host.storage.leases.end(host.storage.leases.live()[0].id)
    renderer = ArchiveRenderer(
        host.storage,
        host.provider,
        host.images,
        waiting.clock,
        host.settings.render,
        host.settings.jobs.min_free_bytes,
        waiting=waiting.vm,
    )
    with ExitStack() as leaving:
        envelope = renderer.discover(SourceArchive("acme", "web", pipeline_file(HELLO)), leaving)
        assert [each.slug for each in envelope.pipelines] == ["demo"]
        (lease,) = host.storage.leases.live()
        assert (lease.uuid == name) is not is_lost
        assert not waiting.vm.is_there
    assert waiting.is_gone()


def test_its_lease_is_parked_and_no_jobs(waiting: Waiting):
    waiting.make()
    (lease,) = waiting.storage.leases.live()
    assert lease.is_preview
    assert lease.state is LeaseState.PARKED
    assert not waiting.provider.parked(lease.uuid)


@pytest.mark.parametrize(
    "change",
    [
        lambda wanted: replace(wanted, image="debian:13"),
        lambda wanted: replace(wanted, provider="qemu"),
        lambda wanted: replace(wanted, settings=replace(wanted.settings, memory_gb=3)),
    ],
    ids=["image", "provider", "settings"],
)
def test_a_render_of_another_kind_ends_it(waiting: Waiting, change: Callable[[VmWanted], VmWanted]):
    waiting.make()
    assert waiting.vm.take(change(waiting.wanted), ACME) is None
    assert waiting.is_gone()


def test_it_is_not_taken_after_its_end(waiting: Waiting):
    name = waiting.make()
    taken = waiting.vm.take(waiting.wanted, ACME)
    assert taken is not None
    with closing(taken):
        waiting.vm.make()
        (later,) = {lease.uuid for lease in waiting.storage.leases.live()} - {name}
        waiting.provider.destroy(later)
        until(lambda: waiting.vm.take(waiting.wanted, ACME) is None, "its end to be seen")


def test_organizations_take_turns(waiting: Waiting):
    """One that renders without end leaves it to another, while that renders too."""

    def taken(organization: int) -> bool:
        vm = waiting.vm.take(waiting.wanted, organization)
        if vm is not None:
            vm.close()
            waiting.vm.make()
        return vm is not None

    waiting.make()
    assert [taken(ACME), taken(ACME)] == [True, True]
    assert not waiting.vm.is_shared
    assert [taken(each) for each in (OTHER, OTHER, OTHER, ACME, ACME, OTHER)] == [True, False, False, True, False, True]
    assert waiting.vm.is_shared
    waiting.clock.advance(10)
    assert [taken(OTHER), taken(OTHER)] == [True, True]


def test_only_one_is_made_at_a_time(waiting: Waiting):
    assert waiting.vm.take(waiting.wanted, ACME) is None
    threads = [threading.Thread(target=waiting.vm.make) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(waiting.storage.leases.live()) == 1


@pytest.mark.parametrize("moment", ["park", "parked"], ids=["begun", "made"])
def test_closing_ends_one_that_is_being_made(waiting: Waiting, monkeypatch: pytest.MonkeyPatch, moment: str):
    """A service that stops has told it so when the VM is made, or is there but not yet known."""
    of = waiting.provider if moment == "park" else waiting.storage.leases
    make = getattr(of, moment)

    def close_then_make(*arguments: object) -> None:
        waiting.vm.close()
        make(*arguments)

    monkeypatch.setattr(of, moment, close_then_make)
    waiting.vm.take(waiting.wanted, ACME)
    waiting.vm.make()
    assert waiting.is_gone()


def test_none_is_made_once_it_is_closed(waiting: Waiting):
    waiting.make()
    waiting.vm.close()
    waiting.vm.make()
    assert waiting.is_gone()


def test_it_is_wanted_for_ten_minutes_after_a_render(waiting: Waiting):
    assert not waiting.vm.is_wanted
    waiting.vm.take(waiting.wanted, ACME)
    assert waiting.vm.is_wanted
    waiting.clock.advance(timedelta(minutes=9).total_seconds())
    assert waiting.vm.is_wanted
    waiting.clock.advance(timedelta(minutes=1).total_seconds())
    assert not waiting.vm.is_wanted


def test_it_is_not_wanted_where_no_vm_may_wait(waiting: Waiting):
    waiting.vm.take(waiting.wanted, ACME)
    waiting.short.set()
    assert not waiting.vm.is_wanted
    waiting.short.clear()
    waiting.settings.now = with_parked(waiting.settings.now, 0)
    assert not waiting.vm.is_wanted


def test_the_reaper_keeps_it_while_it_runs(waiting: Waiting, host: Host):
    name = waiting.make()
    reaper = host.reaper(LaterClock())
    reaper.reap()
    assert [lease.uuid for lease in host.storage.leases.live()] == [name]
    host.provider.destroy(name)
    reaper.reap()
    assert host.storage.leases.live() == []


def test_the_next_process_ends_it(waiting: Waiting, host: Host):
    waiting.make()
    host.reaper().remove_orphans()
    assert waiting.is_gone()


def test_an_engine_that_starts_keeps_vms_of_its_own_renders(waiting: Waiting, host: Host):
    began = host.clock.now()
    name = waiting.make()
    host.reaper().remove_orphans(before=began)
    assert [each.uuid for each in host.storage.leases.live()] == [name]
    host.reaper().remove_orphans()
    assert waiting.is_gone()
