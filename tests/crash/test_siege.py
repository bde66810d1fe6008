"""Nothing is lost and nothing is left over, whatever is killed (engine.md, "After a crash").

`make test` kills 20 times, `make test-crash` CRASH_KILLS times. CI_DAEMON_CRASH_SEED repeats the schedule of an
earlier run.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.siege import Siege
from tests.crash.verdict import check_builds, check_host, check_money
from tests.e2e.daemon import Daemon

_SETTINGS = {
    "CI_DAEMON_POOL_WARM": "1",
    "CI_DAEMON_POOL_MAX_VMS": "6",
    "CI_DAEMON_POOL_MAX_CPU": "100",
    "CI_DAEMON_POOL_MAX_MEMORY_GB": "100",
    "CI_DAEMON_JOBS_KILL_GRACE": "1",
    "CI_DAEMON_JOBS_HOLD_SECONDS": "2",
}


@pytest.fixture
def siege(images_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Siege]:
    """A daemon for a crash run."""
    seed = int(os.environ.get("CI_DAEMON_CRASH_SEED") or random.randrange(10**9))
    monkeypatch.delenv("CI_DAEMON_CRASH_SEED", raising=False)  # the daemon would take it for a setting
    sys.stdout.write(f"CI_DAEMON_CRASH_SEED={seed}\n")
    daemon = Daemon(tmp_path / "state", {"CI_DAEMON_IMAGES_DIR": str(images_dir), **_SETTINGS})
    daemon.command("init")
    try:
        siege = Siege(daemon, seed)
        yield siege
        siege.storage.close()
    finally:
        daemon.kill()
        daemon.command("lease", "kill", "--all")


def test_whatever_is_killed_when_no_build_log_byte_or_debit_is_lost_and_nothing_is_left(siege: Siege):
    try:
        siege.lay(int(os.environ.get("CRASH_KILLS") or 20))
        siege.lift()
        check_builds(siege)
        check_money(siege)
        check_host(siege)
    except BaseException:
        sys.stdout.write(f"{siege.schedule()}\n{siege.daemon.log}\n")
        raise
    finally:
        sys.stdout.write(f"{siege.summary()}\n")
