"""The run time of the owner's small commands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.figures import Benchmark, interleaved
from storage import NewPipeline, Storage, SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.figures import Figure
    from benchmarks.testbed import Testbed

_ROUNDS = 9
_EMAIL = "ada@example.org"
_COMMANDS = (
    "--help",
    "user list",
    f"token create {_EMAIL}",
    "build list ada-example-org/web",
    "audit",
    "queue",
    "lease list",
    "status",
)
_STOPPED = 3


def _measure(testbed: Testbed) -> Iterator[Figure]:
    state = testbed.folder / "state"
    _fill(state)
    program = Path(sys.executable).with_name("ci-daemon")
    for command in _COMMANDS:
        ours = [str(program), "--state-dir", str(state), *command.split()]
        baseline = [sys.executable, "-c", "import click"]
        yield interleaved(command, "ms", _ROUNDS, _timed(ours), _timed(baseline))


def _timed(argv: list[str]) -> Callable[[], float]:
    """Return a function that runs a program and returns its milliseconds.

    The function raises CalledProcessError if the program fails.
    """
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CI_DAEMON_")}

    def run() -> float:
        started = perf_counter()
        done = subprocess.run(argv, stdout=subprocess.DEVNULL, env=environ, check=False)
        took = perf_counter() - started
        if done.returncode not in {0, _STOPPED}:
            raise subprocess.CalledProcessError(done.returncode, argv)
        return took * 1000

    return run


def _fill(state: Path) -> None:
    storage = Storage.create(state, SystemClock())
    try:
        user = storage.users.create(_EMAIL, "Ada")
        organization = storage.organizations.by_slug(user.personal_org_slug)
        if organization is not None:
            storage.pipelines.create(organization.id, NewPipeline("web", "Web", "https://example.org/web.git", "main"))
    finally:
        storage.close()


COMMAND = Benchmark(
    "command",
    "the time that a command takes on a state directory without a service, in the default configuration",
    "an interpreter that imports click and ends.",
    _measure,
)
