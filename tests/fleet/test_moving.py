"""An installation that moves from sandboxes to the members of an engine, as `docs/fleet.md` says."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_daemon.config import load
from ci_daemon.engine import prepare_engine
from storage import SystemClock
from tests.e2e.daemon import Build, Client, Daemon
from tests.e2e.pipelines import Graph, one
from tests.fleet.fleet import POOL, Fleet
from tests.state import new_storage
from tests.waiting import until

_SECONDS = 300.0
_UNTIL_TOLD = "until [ -e /tmp/go ]; do sleep 0.1; done; echo went"


@pytest.fixture
def daemon(lone: Fleet, images_dir: Path, tmp_path: Path) -> Iterator[Daemon]:
    """A service with sandboxes, whose configuration names an engine, too."""
    state = tmp_path / "state"
    new_storage(state, SystemClock()).close()
    configure(state, "sandbox", lone)
    prepare_engine(state, load(state, {}), None, SystemClock().now())
    daemon = Daemon(state, {"CI_DAEMON_IMAGES_DIR": str(images_dir), "CI_DAEMON_POOL_PARKED": "0"})
    try:
        daemon.start()
        yield daemon
        assert daemon.stop() == 0, daemon.log
    finally:
        daemon.kill()
    assert "Traceback" not in daemon.log


def test_jobs_move_one_organization_first_and_then_all(lone: Fleet, daemon: Daemon) -> None:
    """Running jobs end where they are, and a step whose disk is cached for sandboxes runs anew."""
    stays, leads = (Client.create(daemon, f"{name}@example.org") for name in ("stays", "leads"))
    cached = Graph().step("kept", "echo ran", cache={"policy": "ttl", "duration_seconds": 3600, "key": "k"}).ir()
    first = stays.pipeline("first")
    assert [hit(first.build(cached)) for _ in range(2)] == [False, True]
    daemon.command("org", "set", leads.org, "--provider", "incus")
    running = stays.pipeline("long").build(one(_UNTIL_TOLD))
    led = leads.pipeline("long").build(one(_UNTIL_TOLD))
    assert provider_of(daemon, stays, running) == "sandbox"
    assert provider_of(daemon, leads, led) == "incus"
    configure(daemon.state, "incus", lone)
    os.kill(daemon.pid, signal.SIGHUP)
    until(lambda: "changed: pool.provider" in daemon.log, "the reload")
    moved = stays.pipeline("moved").build(one(_UNTIL_TOLD))
    assert provider_of(daemon, stays, moved) == "incus"
    assert provider_of(daemon, stays, running) == "sandbox"
    assert [hit(first.build(cached)) for _ in range(2)] == [False, True]
    for client, build in ((stays, running), (leads, led), (stays, moved)):
        daemon.command("debug", name(client, build), "--", "touch", "/tmp/go")
        assert build.finish(_SECONDS)["state"] == "passed"
        assert build.jobs()["only"]["attempt"] == 1


def configure(state: Path, provider: str, fleet: Fleet) -> None:
    engine = f'[incus]\nstorage = "{POOL}"\nsocket = {json.dumps(str(fleet.members[0].socket))}\n'
    (state / "ci-daemon.toml").write_text(f'{engine}[pool]\nprovider = "{provider}"\n')


def name(client: Client, build: Build) -> str:
    pipeline, _, number = build.path.removeprefix("pipelines/").partition("/builds/")
    return f"{client.org}/{pipeline}/{number}"


def provider_of(daemon: Daemon, client: Client, build: Build) -> str:
    """Return who makes the VM of a build's only job, which runs."""
    build.job("only", "running", _SECONDS)
    (found,) = (each["provider"] for each in daemon.json("lease", "list") if each["build"] == name(client, build))
    return str(found)


def hit(build: Build) -> bool:
    """Tell whether the build, which passes, took its disk from the cache."""
    assert build.finish(_SECONDS)["state"] == "passed"
    return bool(build.jobs()["kept"]["cache_hit"])
