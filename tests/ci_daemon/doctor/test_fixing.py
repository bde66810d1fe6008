from __future__ import annotations

import os
from pathlib import Path

import pytest

from ci_daemon.command import main
from ci_daemon.doctor import Check, apply_fixes, fix_commands


def test_a_fix_that_fails_shows_the_output_of_its_command(tmp_path: Path):
    done = list(apply_fixes([Check("x", ok=False, detail="", fix="sh -c 'echo first; echo no luck; exit 3'")]))
    assert done[0].error == "no luck"
    assert next(apply_fixes([Check("x", ok=False, detail="", fix="false")])).error == "ended with 1"
    assert "No such file" in next(apply_fixes([Check("x", ok=False, detail="", fix=str(tmp_path / "none"))])).error


def test_stale_package_lists_are_updated_before_a_retry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log = tmp_path / "log"
    (tmp_path / "apt-get").write_text(f'#!/bin/sh\necho "$1" >> {log}\n[ "$1" = update ] || grep -q update {log}\n')
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    done = list(apply_fixes([Check("x", ok=False, detail="", fix="apt-get install -y thing")]))
    assert [each.error for each in done] == [None]
    assert log.read_text().split() == ["install", "update", "install"]


def test_all_packages_are_installed_by_one_command():
    checks = [
        Check("a", ok=False, detail="", fix="apt-get install -y a"),
        Check("b", ok=False, detail="", fix="chmod 0666 b"),
        Check("c", ok=False, detail="", fix="apt-get install -y c", needed=False),
        Check("d", ok=True, detail="", fix="apt-get install -y d"),
    ]
    assert fix_commands(checks) == ["apt-get install -y a c", "chmod 0666 b"]


def test_fixes_that_need_root_are_one_command(
    monkeypatch: pytest.MonkeyPatch, state_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "apt-get").write_text("#!/bin/sh\n")
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["--state-dir", str(state_dir), "doctor", "--quiet"]) == 1
    *_, last = capsys.readouterr().out.splitlines()
    assert last.startswith("all at once: ")
    assert "apt-get install -y" in last
    assert "slirp4netns mmdebstrap skopeo umoci git git-lfs openssh-client" in last


def test_only_failures_with_a_safe_fix_are_fixed():
    checks = [
        Check("well", ok=True, detail="", fix="false"),
        Check("careful", ok=False, detail="", fix="false", fixable=False),
        Check("hopeless", ok=False, detail=""),
    ]
    assert list(apply_fixes(checks)) == []


def test_fix_runs_safe_commands_and_checks_again(state_dir: Path, capsys: pytest.CaptureFixture[str]):
    (state_dir / "secret.key").chmod(0o644)
    main(["--state-dir", str(state_dir), "doctor", "--fix"])
    detail = capsys.readouterr()
    assert f"running: chmod 0600 {state_dir}/secret.key" in detail.err
    assert "ok    state:" in detail.out
