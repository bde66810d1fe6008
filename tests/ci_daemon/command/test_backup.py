from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from ci_daemon.command import main
from storage import Storage, SystemClock
from tests.state import new_storage

Run = Callable[..., int]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    storage = new_storage(tmp_path / "state", SystemClock())
    storage.users.create("ann@example.org", "Ann")
    storage.close()
    return tmp_path / "state"


@pytest.fixture
def run(state: Path) -> Run:
    return lambda *arguments, at=state: main(["--state-dir", str(at), *map(str, arguments)])


def test_backup_and_restore_print_their_verification(
    run: Run, state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file, new = tmp_path / "x.backup", tmp_path / "new"
    assert run("backup", file) == 0
    saved, how, *verification = capsys.readouterr().out.splitlines()
    assert saved.startswith("saved 1 organization, 1 user, 0 pipelines, 0 builds, 0 jobs, 0 ledger entries and 2 files")
    assert saved.endswith(f" in {file}, {file.stat().st_size} bytes")
    assert how == "verified it by reading it as a restore does:"
    assert run("restore", file, at=new) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"restored {new} as {state} was at 20")
    assert "  the key is correct and opens 0 secrets" in lines
    assert "  the ledger balances" in lines
    assert lines[1:-1] == verification
    assert run("status", at=new) == 3


def test_through_a_pipe_from_one_machine_to_another(state: Path, tmp_path: Path):
    command = [sys.executable, "-m", "ci_daemon", "--state-dir"]
    taken = subprocess.run([*command, str(state), "--json", "backup", "-"], capture_output=True, check=True)
    assert json.loads(taken.stderr)["counts"]["users"] == 1
    assert json.loads(taken.stderr)["proved"] is True
    restore = [*command, str(tmp_path / "new"), "--json", "restore", "-"]
    restored = subprocess.run(restore, input=taken.stdout, capture_output=True, check=True)
    assert json.loads(restored.stdout)["with_key"] is True
    cut = subprocess.run([*restore[:4], str(tmp_path / "cut"), "restore", "-"], input=taken.stdout[:-99], check=False)
    assert cut.returncode == 1
    assert not (tmp_path / "cut").exists()


def test_a_refusal_names_the_remedy(run: Run, state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run("backup", tmp_path) == 1
    assert f"{tmp_path} is a directory: give a file, as in {tmp_path}/ci-daemon.backup" in capsys.readouterr().err
    assert run("backup", tmp_path / "none" / "x.backup") == 1
    assert "No such file or directory" in capsys.readouterr().err
    assert run("restore", tmp_path / "none") == 1
    assert "No such file or directory" in capsys.readouterr().err
    (tmp_path / "x").write_bytes(os.urandom(100))
    assert run("restore", tmp_path / "x", at=tmp_path / "new") == 1
    assert "x is not restored: it is truncated or damaged at its beginning" in capsys.readouterr().err
    assert run("backup", tmp_path / "y", "--without-key") == 0
    assert "without the key: keep secret.key elsewhere" in capsys.readouterr().out
    assert run("restore", tmp_path / "y", at=tmp_path / "new") == 1
    assert "it does not contain its key: give the key with --key FILE" in capsys.readouterr().err


def test_books_that_are_wrong_are_restored_with_exit_code_1(
    run: Run, state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with apsw.Connection(str(state / "ci-daemon.sqlite3")) as database:
        database.execute("UPDATE organizations SET balance_cents = 7")
    run("backup", tmp_path / "x")
    assert run("restore", tmp_path / "x", at=tmp_path / "new") == 1
    assert "WRONG before the backup was taken: ann-example-org: the balance is kept as 7" in capsys.readouterr().out
    assert Storage.open(tmp_path / "new", SystemClock()).ledger.verify()
