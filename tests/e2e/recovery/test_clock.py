"""A host's clock that is wrong or set: no build times out, and retention removes nothing."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from storage import SystemClock
from tests.e2e.daemon import Client, Daemon, ForkedDaemon
from tests.e2e.pipelines import Graph, one
from tests.sleeper import Sleeper
from tests.state import new_storage
from tests.waiting import until

_DAY = 86_400


class WrongClock:
    """The daemon's clock, which is ahead of the host's by what a file says."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "ahead"
        self.set(0)
        self.environ = {"CLOCK_OFFSET_FILE": str(self._file)}

    def set(self, seconds: int) -> None:
        """Set the clock; in one step, because the daemon reads the file all the time."""
        new = self._file.with_suffix(".new")
        new.write_text(str(seconds))
        new.replace(self._file)


@pytest.fixture
def clock(tmp_path: Path) -> WrongClock:
    return WrongClock(tmp_path)


@pytest.fixture
def daemon(images_dir: Path, tmp_path: Path, clock: WrongClock) -> Iterator[Daemon]:
    settings = {"CI_DAEMON_IMAGES_DIR": str(images_dir), "CI_DAEMON_POOL_PARKED": "1"}
    daemon = ForkedDaemon(tmp_path / "state", settings | clock.environ)
    new_storage(daemon.state, SystemClock()).close()
    yield daemon
    daemon.kill()
    daemon.end_vms()


@pytest.mark.parametrize("seconds", [3600, -3600, 400 * _DAY])
def test_a_step_of_the_clock_times_out_no_build(daemon: Daemon, clock: WrongClock, tmp_path: Path, seconds: int):
    """The second step starts after the clock was set, and has what is left of its build's time."""
    daemon.start("tests.e2e.clock_offset")
    first = Sleeper()
    graph = (
        Graph(timeout_seconds=600).step("first", f"{first.command} || true").step("second", "true", after=("first",))
    )
    build = Client.create(daemon, "ada@example.org").pipeline().build(graph.ir())
    first.wait_for(runs=True)
    clock.set(seconds)
    first.stop()
    build.finish()
    assert build.states() == {"first": "passed", "second": "passed"}, build.jobs()


def test_retention_asks_the_owner_about_a_clock_that_is_wrong(daemon: Daemon, clock: WrongClock):
    """The service starts with a clock that is 400 days ahead; its owner finds that right after all."""
    daemon.start("tests.e2e.clock_offset")
    build = Client.create(daemon, "ada@example.org").pipeline().build(one("echo kept", timeout_seconds=60))
    build.finish()
    daemon.stop()
    clock.set(400 * _DAY)
    daemon.start("tests.e2e.clock_offset")
    until(lambda: "retention removes nothing" in daemon.log, "word of the clock in the daemon's log")
    assert build.log() == "kept\n"
    refused = daemon.command("retention", "run", check=False)
    assert refused.returncode == 1
    assert "ci-daemon retention confirm" in refused.stderr
    status = daemon.json("status")
    assert status["retention_waits"] == pytest.approx(400 * _DAY, abs=60)
    assert "ci-daemon retention confirm" in daemon.command("status").stdout
    with_this_clock = partial(daemon.run, "tests.e2e.clock_offset", "--state-dir", str(daemon.state))
    assert "the clock was set ahead by 400 d" in with_this_clock("doctor", check=False).stdout
    assert "set ahead by 400 d" in with_this_clock("retention", "confirm").stdout
    daemon.stop()
    daemon.start("tests.e2e.clock_offset")
    path = f"{build.path}/jobs/{build.jobs()['only']['id']}/log"
    until(lambda: build.client.request("GET", path).status_code == 410, "the end of the old log")


def test_a_daemon_that_is_stopped_bills_and_times_out_nothing(daemon: Daemon):
    """The command ends while the process is stopped, and is over and billed as of then."""
    daemon.start()
    client, sleeper = Client.create(daemon, "ada@example.org"), Sleeper()
    build = client.pipeline().build(one(f"{sleeper.command} || true", timeout_seconds=8))
    sleeper.wait_for(runs=True)
    daemon.signal(signal.SIGSTOP)
    sleeper.stop()
    back = datetime.now(UTC) + timedelta(seconds=22)
    until(lambda: datetime.now(UTC) > back, "a stop past the time-out, and what a VM may be late")
    daemon.signal(signal.SIGCONT)
    assert build.finish()["state"] == "passed", build.jobs()
    job = build.jobs()["only"]
    began, ended = (datetime.fromisoformat(job[name]) for name in ("started_at", "finished_at"))
    assert ended - began < timedelta(seconds=6)
    today = datetime.now(UTC).date()
    window = {"from": f"{today - timedelta(days=1)}T00:00:00Z", "to": f"{today + timedelta(days=1)}T00:00:00Z"}
    usage = client.get(f"/api/v0/billing/usage/{client.org}", params=window)
    assert usage["cpu_seconds"] < 2 * 6
