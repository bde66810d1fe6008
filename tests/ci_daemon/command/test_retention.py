from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ci_daemon.command import main
from storage import NewBuild, Storage
from tests.clock import ManualClock
from tests.records import new_pipeline
from tests.state import new_storage

Run = Callable[..., int]
LONG_AGO = timedelta(days=91)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory with the logs of an old build and of a new one."""
    new_storage(tmp_path / "state", ManualClock(datetime.now(UTC))).close()
    for age in (LONG_AGO, timedelta()):
        storage = Storage.open(tmp_path / "state", ManualClock(datetime.now(UTC) - age))
        pipeline = new_pipeline(storage, email=f"{age.days}@example.org")
        build = storage.builds.create_rejected(pipeline, NewBuild("main", "c0ffee"), "invalid_ir", "no jobs")
        with storage.logs.writer(build.uuid, "job", 1) as log:
            log.output(b"x" * 968)
        storage.close()
    return tmp_path / "state"


@pytest.fixture
def run(state: Path) -> Run:
    return lambda *arguments: main(["--state-dir", str(state), "retention", "run", *arguments])


def test_expired_files_are_listed_and_then_removed(state: Path, run: Run, capsys: pytest.CaptureFixture[str]):
    def clean_up(*arguments: str) -> tuple[bool, dict[str, int]]:
        assert run("--json", *arguments) == 0
        document = json.loads(capsys.readouterr().out)
        return document["dry_run"], document["logs"]

    for _ in range(2):
        assert clean_up("--dry-run") == (True, {"builds": 1, "bytes": 1000})
        assert len(list((state / "logs").iterdir())) == 2
    assert clean_up() == (False, {"builds": 1, "bytes": 1000})
    assert len(list((state / "logs").iterdir())) == 1
    assert clean_up() == (False, {"builds": 0, "bytes": 0})


def test_the_settings_are_those_of_the_configuration(
    state: Path, run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CI_DAEMON_RETENTION_LOGS_DAYS", "0")
    assert run() == 0
    assert capsys.readouterr().out.startswith("removed the logs of 0 builds (0.0 MB)")
    monkeypatch.setenv("CI_DAEMON_RETENTION_LOGS_GB", "0.000001")
    assert run("--dry-run") == 0
    assert capsys.readouterr().out.startswith("would remove the logs of 1 build (0.0 MB)")
    assert len(list((state / "logs").iterdir())) == 2
