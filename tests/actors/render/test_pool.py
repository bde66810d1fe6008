from __future__ import annotations

import shutil
import threading
from typing import Any

import pytest

from actors.cleanup.reaper import Reaper
from actors.messages import Reschedule
from storage import Build, BuildState, LeaseState, NewBuild, Shape
from tests.actors.conftest import Host
from tests.waiting import until

pytestmark = pytest.mark.sandbox


def asked_for(host: Host) -> Build:
    """Store a build to render, and tell the engine; the render fails, because no API serves the source."""
    new = NewBuild("main", "0" * 40, source_archive=b"")
    build = host.storage.renders.begin(host.pipeline, new, "http://127.0.0.1:1/nowhere")
    host.engine.render(build.id)
    return build


def waits(host: Host, build: Build) -> bool:
    """Make the pool look at the waiting renders; return True if a build's render still waits."""
    pool = host.engine.addresses.renders
    pool.ask(Reschedule())
    at_work = {thread.name for thread in threading.enumerate()}
    return f"RenderPool-render build {build.id}" not in at_work and host.storage.renders.pending(build.id)


def begun(host: Host, build: Build) -> None:
    """Check that a build's render has run, and failed for lack of a source."""
    assert host.finish(build).error_code == "render_failed"


def test_on_a_drained_host_renders_wait_until_it_is_resumed(host: Host):
    host.storage.switches.drain()
    assert host.engine.renders_wait() == "the owner has drained this host"
    build = asked_for(host)
    assert waits(host, build)
    host.storage.switches.resume()
    assert host.engine.renders_wait() is None
    begun(host, build)


def test_on_a_full_disk_renders_wait_and_room_is_made(host: Host, monkeypatch: pytest.MonkeyPatch):
    real, free, made = shutil.disk_usage, [2 * 2**30], []

    def usage(path: Any):
        return real(path)._replace(free=free[0])

    monkeypatch.setattr("actors.scheduling.pending_reason.shutil.disk_usage", usage)
    monkeypatch.setattr(Reaper, "free_disk_space", lambda _, lacking: made.append(lacking))
    build = asked_for(host)
    assert waits(host, build)
    until(lambda: made, "room asked for")
    assert host.engine.renders_wait() == "the host's disk has 2.0 GB left, below 5 GB nothing starts"
    free[0] = 6 * 2**30
    begun(host, build)


def test_the_vms_of_an_earlier_pool_are_ended_by_the_next_one(host: Host):
    host.storage.switches.drain()
    build = asked_for(host)
    render = host.storage.renders.get(build.id)
    assert render is not None
    lease = host.storage.renders.lease(render, "left-behind", provider="sandbox", image="debian:12", shape=Shape())
    assert lease is not None
    host.restart()
    until(lambda: host.storage.leases.live() == [], "the end of the VM")
    ended = host.storage.leases.get(lease.id)
    assert ended is not None
    assert ended.state is LeaseState.ENDED
    now = host.storage.builds.get(build.id)
    assert now is not None
    assert now.state is BuildState.SCHEDULED
