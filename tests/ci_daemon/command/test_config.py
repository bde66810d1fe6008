from __future__ import annotations

import json
from pathlib import Path

import pytest

from ci_daemon.command import main
from tests.ci_daemon.conftest import Run


@pytest.fixture
def run(state: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `ci-daemon` on an existing state directory, without the environment's settings."""
    monkeypatch.delenv("CI_DAEMON_IMAGES_DIR", raising=False)
    return lambda *arguments: main(["--state-dir", str(state), *arguments])


def test_check_tells_every_error_with_its_line_and_fails(run: Run, state: Path, capsys: pytest.CaptureFixture[str]):
    file = state / "ci-daemon.toml"
    file.write_text("[http]\nthreads = 'many'\n\n[pool]\nparkd = 1\n")
    assert run("config", "check") == 1
    assert capsys.readouterr().out.splitlines() == [
        f'error: {file}:2: http.threads: expected a whole number of at least 2, got "many"',
        f"error: {file}:5: pool.parkd is not a setting: did you mean pool.parked?",
        f"{file}: the service cannot start with it",
    ]
    assert run("config", "check", "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["valid"], len(found["errors"]), found["warnings"]) == (False, 2, [])


def test_check_names_the_missing_half_of_payments(run: Run, state: Path, capsys: pytest.CaptureFixture[str]):
    file = state / "ci-daemon.toml"
    file.write_text('[payments]\nsecret_key = "sk_test_hush"\n')
    assert run("config", "check") == 1
    printed = capsys.readouterr().out
    assert "error: " in printed
    assert "payments: webhook_secret is missing: set it too, or remove secret_key; payments need both" in printed
    assert "hush" not in printed


def test_check_warns_of_unmet_needs_of_the_configuration(run: Run, state: Path, capsys: pytest.CaptureFixture[str]):
    file = state / "ci-daemon.toml"
    file.write_text('[mail]\nhost = "localhost"\nuser = "ci"\npassword = "hush"\n')
    file.chmod(0o644)
    (state / "secret.key").chmod(0o640)
    assert run("config", "check") == 0
    printed = capsys.readouterr().out
    assert f"warning: {state}/secret.key is open to others: run `chmod 0600 {state}/secret.key`" in printed
    assert "warning: there is no image debian:12, from which most steps start: run `ci-daemon " in printed
    assert f"warning: others may read {file}, which holds mail.password: run `chmod o-r {file}`" in printed
    assert printed.endswith(f"{file} is valid\n")


def test_show_prints_each_effective_value_and_its_origin(
    run: Run, state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    file = state / "ci-daemon.toml"
    file.write_text('[pool]\nparked = 5\n\nlow_disk_gb = 2\n[images.map]\n"python:3" = "debian:13"\n')
    monkeypatch.setenv("CI_DAEMON_POOL_PARKED", "7")
    assert run("config", "show", "--json") == 0
    found = {each["key"]: (each["value"], each["from"]) for each in json.loads(capsys.readouterr().out)}
    assert found["pool.parked"] == (7, "CI_DAEMON_POOL_PARKED")
    assert found["pool.low_disk_gb"] == (2.0, f"{file}:4")
    assert found["images.map"] == ({"python:3": "debian:13"}, f"{file}:5")
    assert found["pool.max_vms"] == (0, "default")
    assert found["http.base_url"] == (None, "default")


def test_show_keeps_passwords_and_tokens_to_itself(run: Run, state: Path, capsys: pytest.CaptureFixture[str]):
    (state / "ci-daemon.toml").write_text('[mail]\npassword = "hush"\n[http]\nmetrics_token = "hush-hush-hush-hush"\n')
    for form in ([], ["--json"]):
        assert run("config", "show", *form) == 0
        printed = capsys.readouterr().out
        assert "hush" not in printed
        assert printed.count("(hidden)") == 2


def test_show_prints_a_file_to_begin_with(run: Run, state: Path, capsys: pytest.CaptureFixture[str]):
    assert run("config", "show", "--commented") == 0
    (state / "ci-daemon.toml").write_text(capsys.readouterr().out)
    assert run("config", "check") == 0
