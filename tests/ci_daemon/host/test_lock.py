from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from importlib.metadata import version
from typing import TYPE_CHECKING

import pytest

from ci_daemon.host.lock import AlreadyServed, ServingProcess, served_by, serving
from tests.processes import ended

if TYPE_CHECKING:
    from pathlib import Path

HOLD = """
import sys
from pathlib import Path
from ci_daemon.host.lock import serving

with serving(Path(sys.argv[1])) as lock:
    lock.record_url("http://here")
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path):
    with ended(
        subprocess.Popen(
            [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process


def test_a_second_daemon_is_refused_with_the_first_ones_pid(holder: subprocess.Popen[str], tmp_path: Path):
    with pytest.raises(AlreadyServed, match=f"process {holder.pid} serves {tmp_path} already"), serving(tmp_path):
        pass
    found = served_by(tmp_path)
    assert found is not None
    assert found == ServingProcess(holder.pid, "http://here", version("ci-daemon"), found.since)
    assert 0 <= time.time() - (found.since or 0) < 60


def test_the_lock_ends_with_its_process_however_it_ends(holder: subprocess.Popen[str], tmp_path: Path):
    holder.kill()
    holder.wait()
    assert served_by(tmp_path) is None
    with serving(tmp_path):
        assert json.loads((tmp_path / "ci-daemon.lock").read_text())["pid"] == os.getpid()
    assert (tmp_path / "ci-daemon.lock").read_text() == ""


def test_an_unserved_directory_has_no_server(tmp_path: Path):
    assert served_by(tmp_path) is None
    assert served_by(tmp_path / "nowhere") is None


def test_the_lock_file_is_the_owners_alone(tmp_path: Path):
    with serving(tmp_path):
        assert (tmp_path / "ci-daemon.lock").stat().st_mode & 0o777 == 0o600
