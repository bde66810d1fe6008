"""Previews fall asleep when nobody looks, pays or may, and their disks are kept until they are gone."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors import PreviewSettings, RetentionSettings, vms
from actors.cleanup.retention import expire_kept_disks
from actors.forks import Fork, Forks, PreviewAsleep, PreviewFailed, PreviewGone, Previews, previews
from actors.vms import Images, Provider
from storage import BillingSettings, Build, LedgerSource, Preview, PreviewState, TokenLimits
from tests.actors.conftest import Host
from tests.clock import PassingClock
from tests.waiting import until

IDLE = 300
PRICES = BillingSettings(cpu=1_000, memory_gb=0, disk_gb=0)
"""A cent for 1000 seconds of one CPU."""


class Site:
    """A host without parked VMs, whose builds have previews, and the previews of its service."""

    def __init__(self, host: Host) -> None:
        host.settings = replace(
            host.settings, previews=PreviewSettings(url="http://previews.example.net", idle_seconds=IDLE)
        )
        host.engine = host.new_engine()
        host.engine.start()
        self.host, self.storage, self.clock = host, host.storage, PassingClock()
        forks = Forks(host.storage, host.providers, host.images, self.clock, lambda: host.settings, lambda: None)
        self.previews = Previews(host.storage, forks, lambda: False)

    def build(self, serve: str = "sleep 1000", *, job: dict[str, Any] | None = None, **fields: Any) -> Build:
        """Return a build that has passed, whose only job has a preview."""
        document = {"run": "echo one >page", "preview": {"port": 8000, "run": serve}, **(job or {})}
        ir = json.dumps({"version": "1", "jobs": {"only": document}})
        build = self.host.finish(self.host.build(ir, **fields))
        assert build.state == "passed"
        until(lambda: not self.vms, "the end of its VM")
        return build

    def preview(self, build: Build) -> Preview:
        (found,) = self.storage.previews.of_build(build.id)
        return found

    def look(self, build: Build) -> None:
        """Ask for its port, which wakes it."""
        with self.previews.request(self.preview(build), 10):
            assert self.preview(build).state is PreviewState.AWAKE

    def sleeps(self, build: Build) -> Preview:
        """Wait until it has no VM, and return it."""
        until(lambda: not self.vms, "the sleep of the preview")
        return self.preview(build)

    @property
    def vms(self) -> list[str]:
        return list(self.host.provider.list())


@pytest.fixture
def site(tmp_path: Path, provider: Provider, images: Images, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(previews, "_WATCH_SECONDS", 0.02)
    host = Host(tmp_path, provider, images, billing=PRICES)
    site = Site(host)
    yield site
    site.previews.stop()
    host.close()


def test_one_that_nobody_looks_at_sleeps(site: Site):
    """It stays awake for as long as a request takes, and wakes with the disk of its job."""
    build = site.build("cat page; sleep 1000")
    with site.previews.request(site.preview(build), 10):
        hold = site.storage.holds.by_id(site.preview(build).hold_id or 0)
        site.clock.advance(2 * IDLE)
        assert hold is not None
        until(lambda: site.storage.holds.by_id(hold.id) != hold, "a look at it, which lengthens its hold")
        assert len(site.vms) == 1
    site.clock.advance(IDLE + 1)
    asleep = site.sleeps(build)
    assert (asleep.state, asleep.failure) == (PreviewState.ASLEEP, None)
    site.look(build)


def test_its_time_ends(site: Site):
    """Also while somebody looks."""
    build = site.build()
    with site.previews.request(site.preview(build), 10):
        site.clock.advance(24 * 3600)
        site.sleeps(build)
    with pytest.raises(PreviewGone, match=previews.LATE):
        site.look(build)
    assert site.preview(build).why_ended == previews.LATE


@pytest.mark.parametrize("why", ["the organization has no credit left", "the budget of the API key"])
def test_one_that_nobody_pays_for_sleeps(site: Site, why: str):
    """The cost so far counts, also while somebody looks."""
    storage, of, paid = site.storage, site.host.pipeline.organization_id, dict[str, Any]()
    if "budget" in why:
        owner = storage.users.create("agent@example.org", "Agent")
        key, _ = storage.tokens.create_api_key(owner.id, "agent", limits=TokenLimits(budget_cents=9))
        paid = {"budget_id": key.id}
    else:
        storage.billing = replace(storage.billing, require_credit=True)
        storage.ledger.append(of, 9, LedgerSource.ADMIN_GRANT, "for the tests")
    build = site.build(**paid)
    with site.previews.request(site.preview(build), 10):
        site.clock.advance(9_100)
        asleep = site.sleeps(build)
    assert why in str(asleep.failure)


def test_one_that_nobody_pays_for_does_not_wake(site: Site):
    build = site.build()
    site.storage.billing = replace(site.storage.billing, require_credit=True)
    with pytest.raises(PreviewFailed, match="the organization has no credit left"):
        site.look(build)
    assert site.vms == []


@pytest.mark.parametrize("when", ["before its VM is made", "after"])
def test_one_that_ends_while_it_wakes_leaves_no_vm(site: Site, monkeypatch: pytest.MonkeyPatch, when: str):
    """Neither does one that had ended when it was asked for, by a look from before."""
    make, build, made = Forks.make, site.build(), list[str]()
    preview = site.preview(build)

    def ending(*args: Any, **options: Any) -> Fork:
        if when != "after":
            site.previews.end(preview, "a member ended it")
        fork = make(*args, **options)
        made.append(fork.lease.uuid)
        site.previews.end(preview, "a member ended it")
        return fork

    monkeypatch.setattr(Forks, "make", ending)
    with pytest.raises(PreviewFailed, match="it has ended"), site.previews.request(preview, 60):
        pass
    assert site.sleeps(build).why_ended == "a member ended it"
    assert len(made) == (when == "after")


def test_a_newer_build_of_its_branch_replaces_it(site: Site):
    """Also one whose job was found in the cache: both serve one disk. The VM of the older one ends."""
    cached = {"cache": True}
    first = site.build(job=cached)
    site.look(first)
    second = site.build(job=cached)
    assert (site.host.job(second).cache_hit, site.vms) == (True, [])
    gone, there = site.preview(first), site.preview(second)
    assert (gone.state, gone.why_ended) == (PreviewState.GONE, "a newer build of its branch has another")
    assert gone.disk == there.disk
    site.look(second)


def test_the_oldest_ends_when_its_disk_has_no_room(site: Site):
    builds = [site.build("cat page; sleep 1000", branch=each) for each in ("main", "next")]
    disks = [site.preview(each).disk for each in builds]
    expire_kept_disks(site.storage, site.host.providers, RetentionSettings(), site.clock.now())  # it measures them
    sizes = [each.bytes or 0 for each in site.storage.snapshots.all() if each.name in disks]
    assert all(sizes)
    settings = replace(RetentionSettings(), kept_disks_gb=sum(sizes) / 2**30)
    expire_kept_disks(site.storage, site.host.providers, settings, site.clock.now(), room=1)
    ended, left = map(site.preview, builds)
    assert (ended.why_ended, left.why_ended) == ("its disk was removed to make room for others", None)
    with pytest.raises(PreviewGone):
        site.look(builds[0])
    site.look(builds[1])


def test_a_job_that_fails_has_none(site: Site):
    document = {"run": "exit 1", "preview": {"port": 8000, "run": "sleep 1000"}}
    build = site.host.finish(site.host.build(json.dumps({"version": "1", "jobs": {"only": document}})))
    assert build.state == "failed"
    assert site.storage.previews.of_build(build.id) == []


def test_one_whose_disk_is_gone_says_so(site: Site):
    """Its disk was removed by hand, and nobody ended it."""
    build = site.build()
    preview = replace(site.preview(build), disk="00000000-0000-4000-8000-000000000000")
    with pytest.raises(PreviewFailed, match="its disk was removed"), site.previews.request(preview, 10):
        pass
    asleep = site.preview(build)
    assert (asleep.state, asleep.failure) == (PreviewState.ASLEEP, "its disk was removed")
    assert site.vms == []


def test_a_silent_port_is_told_with_the_last_lines(site: Site, monkeypatch: pytest.MonkeyPatch):
    """So is a command that ends, and neither leaves a VM."""
    asked = threading.Event()

    def closed(*_: object, **__: object) -> vms.PortSocket:
        asked.set()
        raise vms.PortClosed("nothing listens")

    monkeypatch.setattr(vms, "open_port", closed)
    build = site.build("echo no server here; exit 3")
    with pytest.raises(PreviewFailed, match="has ended with exit code 3; its last lines:\nno server here"):
        site.look(build)
    silent = site.build("echo still starting; sleep 1000", branch="silent")
    asked.clear()
    with pytest.raises(PreviewAsleep), site.previews.request(site.preview(silent), 0):
        pass
    assert asked.wait(10)
    site.clock.advance(site.host.settings.previews.ready_seconds + 1)
    said = until(lambda: site.preview(silent).failure, "the end of its time")
    assert said.startswith("nothing takes connections at port 8000 after 60 s; its last lines:\nstill starting")
    site.sleeps(silent)


@pytest.mark.parametrize(
    ("bound", "why"),
    [
        ("most", "1 previews are awake on this service"),
        ("most_per_organization", "as many previews of its organization"),
    ],
)
def test_no_more_are_awake_than_may_be(site: Site, bound: str, why: str):
    """The one that is awake stays so, and once it has ended the other wakes."""
    first, second = site.build(), site.build(branch="next")
    settings = site.host.settings
    site.host.settings = replace(settings, previews=replace(settings.previews, **{bound: 1}))
    site.look(first)
    with pytest.raises(PreviewFailed, match=why):
        site.look(second)
    assert site.preview(first).state is PreviewState.AWAKE
    site.previews.end(site.preview(first), "a member ended it")
    site.clock.advance(10)
    site.look(second)
