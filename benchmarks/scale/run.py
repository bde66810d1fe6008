"""A run at one size: a daemon, its guests, and the phases through which they are taken."""

from __future__ import annotations

import http.client
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from actors.vms.host.vm_folder import KeyPair
from benchmarks.scale.fleet import FOLDER, MEMBERS
from benchmarks.scale.guests import HOST_KEY
from benchmarks.scale.observed import Observer
from tests.e2e.daemon import Client, Daemon
from tests.e2e.pipelines import Graph
from tests.processes import ended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from benchmarks.scale.observed import Observation
    from benchmarks.testbed import Testbed
    from tests.e2e.daemon import Build

_ORGANIZATIONS = 10
_JOBS_PER_BUILD = 20
_CENTS = 10**9
_PHASE_SECONDS = 5.0
_SILENT = "print 0 3600"
_PHASES = {"silent": _SILENT, "a line a second": "print 100 1", "all they can": "print 16384 0"}
_TIMEOUT_SECONDS = 180.0
_POLL_SECONDS = 0.1
_ASK_SECONDS = 0.05
_SETTLE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Size:
    """The number of jobs that run at once, and of members."""

    jobs: int
    members: int


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of a run: the jobs that it started or ended, and the times of the API's answers meanwhile."""

    name: str
    began: Observation
    done: Observation
    jobs: int = 0
    answers_ms: tuple[float, ...] = ()


def run(testbed: Testbed, size: Size) -> Iterator[Phase]:
    """Take a daemon through all phases, and yield each when it is over."""
    folder = testbed.folder / f"{size.jobs}"
    folder.mkdir()
    with guests_in(folder) as guests, daemon_over(testbed, folder, size, {}) as daemon:
        observer = Observer(daemon.pid, daemon.state)
        clients = [Client.create(daemon, f"bench-{number}@example.org", _CENTS) for number in range(_ORGANIZATIONS)]
        pipelines = [client.pipeline() for client in clients]

        began = observer.observe()
        builds = [pipelines[each % _ORGANIZATIONS].build(_fan()) for each in range(size.jobs // _JOBS_PER_BUILD)]
        _until(lambda: observer.jobs()["running"] == size.jobs, "the start of all jobs")
        yield Phase("start", began, observer.observe(), size.jobs)

        for name, order in _PHASES.items():
            guests.order(order)
            began, answers = observer.observe(), _ask(builds[0])
            yield Phase(name, began, observer.observe(), answers_ms=answers)

        guests.order(_SILENT)
        _await_output(observer)
        guests.order("end")
        began = observer.observe()
        _until(lambda: observer.leases() == 0, "the end of all leases")
        yield Phase("end", began, observer.observe(), size.jobs)
        if (states := observer.jobs()) != {"passed": size.jobs}:
            raise RuntimeError(f"not all jobs have passed: {states}")


@dataclass(frozen=True, slots=True)
class Guests:
    """The process of the guests."""

    process: subprocess.Popen[str]

    def order(self, line: str) -> None:
        """Give an order to all commands."""
        assert self.process.stdin
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()


@contextmanager
def guests_in(folder: Path) -> Iterator[Guests]:
    """Run the guests, with a socket and keys in a folder."""
    key = KeyPair.make()
    (folder / HOST_KEY).write_text(key.private, "ascii")
    (folder / f"{HOST_KEY}.pub").write_text(key.public, "ascii")
    argv = [sys.executable, "-m", "benchmarks.scale.guests", str(folder)]
    with ended(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)) as process:
        assert process.stdout
        if process.stdout.readline() != "ready\n":
            raise RuntimeError("the guests did not start: `make setup` installs what they need")
        yield Guests(process)


@contextmanager
def daemon_over(testbed: Testbed, folder: Path, size: Size, fleet: Mapping[str, str]) -> Iterator[Daemon]:
    """Run the service over the simulated fleet, given what differs from the usual one, by variables."""
    settings = {
        FOLDER: str(folder),
        MEMBERS: str(size.members),
        "CI_DAEMON_IMAGES_DIR": str(testbed.images_dir),
        "CI_DAEMON_POOL_PARKED": "0",
        "CI_DAEMON_POOL_MAX_VMS": str(size.jobs),
        "CI_DAEMON_POOL_MAX_CPU": "100000",
        "CI_DAEMON_POOL_MAX_MEMORY_GB": "1000000",
        **fleet,
    }
    daemon = Daemon(folder / "state", settings)
    daemon.command("init")
    try:
        daemon.start("benchmarks.scale.daemon")
        yield daemon
    finally:
        daemon.kill()


def _fan() -> str:
    graph = Graph()
    for number in range(_JOBS_PER_BUILD):
        graph.step(str(number), "as ordered")
    return graph.ir()


def _ask(build: Build) -> tuple[float, ...]:
    """Ask for a build during a phase; return the milliseconds to each answer, fastest first."""
    client = build.client
    path = f"/api/v0/organizations/{client.org}/{build.path}"
    headers = {"Authorization": f"Bearer {client.token}"}
    took = []
    end = perf_counter() + _PHASE_SECONDS
    with closing(http.client.HTTPConnection(client.daemon.url.removeprefix("http://"))) as connection:
        while perf_counter() < end:
            asked = perf_counter()
            connection.request("GET", path, headers=headers)
            connection.getresponse().read()
            took.append((perf_counter() - asked) * 1000)
            time.sleep(_ASK_SECONDS)
    return tuple(sorted(took))


def _await_output(observer: Observer) -> None:
    """Wait until all that was printed is in the logs."""
    size = -1
    while (now := observer.observe().log_bytes) != size:
        size = now
        time.sleep(_SETTLE_SECONDS)


def _until(look: Callable[[], bool], what: str) -> None:
    deadline = perf_counter() + _TIMEOUT_SECONDS
    while not look():
        if perf_counter() > deadline:
            raise RuntimeError(f"{what}: not within {_TIMEOUT_SECONDS:g} s")
        time.sleep(_POLL_SECONDS)
