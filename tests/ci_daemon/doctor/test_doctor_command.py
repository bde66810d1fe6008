from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci_daemon.command import main


def test_the_command_tells_everything_as_json(state_dir: Path, capsys: pytest.CaptureFixture[str]):
    main(["--state-dir", str(state_dir), "doctor", "--json"])
    found = {check["name"]: check for check in json.loads(capsys.readouterr().out)}
    assert found["state"]["ok"]
    assert set(found["python"]) == {"name", "ok", "needed", "detail", "mend"}
    assert {
        "overlay",
        "tun",
        "sub-ids",
        "namespaces",
        "clock",
        "disk",
        "database",
        "address",
        "limit on memory",
    } <= set(found)


def test_the_command_fails_where_something_needed_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["--state-dir", str(tmp_path), "doctor", "--quiet"]) == 1
    out = capsys.readouterr().out
    assert f"fail  state: {tmp_path} is not a state directory yet: run `ci-daemon --state-dir {tmp_path} init`" in out
    assert "python" not in out
