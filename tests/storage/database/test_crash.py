from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from storage import JobState, Storage
from tests.records import new_job
from tests.storage.world import World

_CHECKOUT = Path(__file__).parents[3]
_DAEMON = """
import sys
from datetime import timedelta
from pathlib import Path
from storage import JobState, Storage
from tests.clock import ManualClock
from tests.storage.world import START, World

clock = ManualClock(START)
storage = Storage.open(Path(sys.argv[1]), clock)
pipeline = storage.pipelines.by_id(1)
world = World(storage, clock, pipeline)
for job in storage.jobs.of_build(1):
    lease = world.start(job)
    clock.advance(seconds=240)
    world.finish(job, lease)
    print(job.id, flush=True)
"""


@pytest.mark.parametrize("finished", [1, 40])
def test_a_daemon_killed_at_any_moment_makes_each_debit_once(storage: Storage, world: World, finished: int):
    build = world.build(*(new_job(str(number)) for number in range(500)))
    daemon = subprocess.Popen(
        [sys.executable, "-c", _DAEMON, str(storage.directory)], stdout=subprocess.PIPE, cwd=_CHECKOUT
    )
    assert daemon.stdout is not None
    reported = [int(daemon.stdout.readline()) for _ in range(finished)]
    daemon.send_signal(signal.SIGKILL)
    daemon.wait()
    daemon.stdout.close()

    passed = [job for job in world.jobs(build) if job.state is JobState.PASSED]
    assert {job.id for job in passed} >= set(reported)
    assert storage.ledger.verify() == []
    assert storage.ledger.balance(world.pipeline.organization_id) == -10 * len(passed)
    for job in world.jobs(build):
        attempts = storage.attempts.of_job(job.id)
        assert len(attempts) == job.attempt
        assert [attempt.state for attempt in attempts] == [job.state][: job.attempt]
