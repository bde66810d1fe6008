"""A service that is killed loses nothing and leaves nothing (engine.md, "After a crash").

`make test` kills 20 times, `make test-crash` CRASH_KILLS times. CRASH_SEED repeats the schedule of an
earlier crash_run.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from storage import SystemClock
from tests.crash.crash_run import CrashRun
from tests.crash.invariants import check_builds, check_gates, check_host, check_money, check_parked, check_triggers
from tests.e2e.daemon import ForkedDaemon
from tests.identity.local_server import local_server
from tests.ports import reserved_port
from tests.state import new_storage

pytestmark = pytest.mark.long

_SETTINGS = {
    "CI_DAEMON_POOL_PARKED": "4",
    "CI_DAEMON_POOL_MAX_VMS": "6",
    "CI_DAEMON_POOL_MAX_CPU": "100",
    "CI_DAEMON_POOL_MAX_MEMORY_GB": "100",
    "CI_DAEMON_JOBS_KILL_GRACE": "1",
    "CI_DAEMON_JOBS_HOLD_SECONDS": "2",
    "CI_DAEMON_NOTIFICATIONS_NETWORKS": '["127.0.0.0/8"]',
}


@pytest.fixture
def crash_run(images_dir: Path, tmp_path: Path) -> Iterator[CrashRun]:
    """A daemon, and a client of it, for a crash run."""
    seed = int(os.environ.get("CRASH_SEED") or random.randrange(10**9))
    sys.stdout.write(f"CRASH_SEED={seed}\n")
    with reserved_port() as port, local_server() as endpoint:  # the hook of a repository keeps the port
        own = {"CI_DAEMON_IMAGES_DIR": str(images_dir), "CI_DAEMON_HTTP_LISTEN": f"127.0.0.1:{port}"}
        daemon = ForkedDaemon(tmp_path / "state", own | _SETTINGS)
        new_storage(daemon.state, SystemClock()).close()
        try:
            with closing(CrashRun(daemon, endpoint, tmp_path, seed)) as crash_run:
                yield crash_run
        finally:
            daemon.kill()
            daemon.end_vms()


def test_after_kills_no_build_log_byte_or_debit_is_lost(crash_run: CrashRun):
    try:
        crash_run.kill_until(int(os.environ.get("CRASH_KILLS") or 20))
        crash_run.wait_until_idle()
        check_builds(crash_run)
        check_gates(crash_run)
        check_triggers(crash_run)
        check_money(crash_run)
        check_parked(crash_run)
        check_host(crash_run)
    except BaseException:
        sys.stdout.write(f"{crash_run.schedule()}\n{crash_run.daemon.log}\n")
        raise
    finally:
        sys.stdout.write(f"{crash_run.summary()}\n")
