"""`ci-daemon logs` and its calls of journalctl, here a script that prints its arguments."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci_daemon.command import main
from ci_daemon.command.observation import logs as log_command
from storage import NewBuild, Storage, SystemClock
from tests.ci_daemon.conftest import Run
from tests.records import new_job, new_pipeline


@pytest.fixture
def run(state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    journalctl = tmp_path / "bin" / "journalctl"
    journalctl.parent.mkdir()
    journalctl.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nexit 7\n')
    journalctl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{journalctl.parent}:{os.environ['PATH']}")
    (tmp_path / "journal" / "of-a-machine").mkdir(parents=True)
    (tmp_path / "journal" / "of-a-machine" / "system.journal").touch()
    monkeypatch.setattr(log_command, "_JOURNALS", (tmp_path / "journal",))
    return lambda *arguments: main(["--state-dir", str(state), *arguments])


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        ([], ["--output=short-iso", "--lines=100", "--no-pager"]),
        (["-f"], ["--output=short-iso", "--lines=100", "--follow"]),
        (["--since", "1 hour ago"], ["--output=short-iso", "--since=1 hour ago", "--no-pager"]),
        (["-n", "5", "--json"], ["--output=json", "--lines=5", "--no-pager"]),
        (["--since", "--vacuum-size=1"], ["--output=short-iso", "--since=--vacuum-size=1", "--no-pager"]),
    ],
)
def test_logs_reads_the_units_journal_and_keeps_its_exit_code(
    run: Run, capfd: pytest.CaptureFixture[str], arguments: list[str], asked: list[str]
):
    assert run("logs", *arguments) == 7
    assert capfd.readouterr().out.splitlines() == ["--unit=ci-daemon.service", *asked]


def test_quiet_prints_no_line_of_the_journal(run: Run, capfd: pytest.CaptureFixture[str]):
    assert run("logs", "--quiet") == 7
    assert capfd.readouterr().out == ""
    assert run("logs", "--quiet", "--json") == 7
    assert "--output=json" in capfd.readouterr().out


def test_of_one_build_the_lines_are_asked_for_that_are_about_it(
    run: Run, state: Path, capfd: pytest.CaptureFixture[str]
):
    storage = Storage.open(state, SystemClock())
    pipeline = new_pipeline(storage)
    build = storage.builds.create(pipeline, NewBuild(branch="main", commit="c0"), (new_job(),))
    storage.close()
    assert run("logs", "--build", "acme/web/1") == 7
    assert capfd.readouterr().out.splitlines()[-1] == f"CI_BUILD={build.uuid}"
    assert run("logs", "--build", "acme/web/2") == 1


def test_without_a_journal_it_names_the_logs_place(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "journal" / "of-a-machine" / "system.journal").unlink()
    assert run("logs") == 1
    assert "this host has no journal: the service's log is the stderr of `ci-daemon serve`" in capsys.readouterr().err
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run("logs") == 1
    assert "this host has no journal: the service's log is the stderr of `ci-daemon serve`" in capsys.readouterr().err
