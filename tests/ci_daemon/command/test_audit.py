"""`ci-daemon audit`: who changed what, filtered, and followed."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from storage import Storage
from tests.ci_daemon.conftest import Run, RunJson
from tests.state import run_sql


def follow(state: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ci_daemon", "--state-dir", str(state), "audit", "--follow", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_an_entry_has_actor_action_origin_and_subject(run: Run, run_json: RunJson, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SUDO_USER", "ada")
    monkeypatch.setenv("SSH_CONNECTION", "192.0.2.7 1234 192.0.2.1 22")
    added = run_json("user", "add", "bob@example.org", "--name", "Bob")
    run_json("org", "set", added["personal_org_slug"], "--weight", "2", "--no-fail-fast")
    run_json("coupon", "create", "WELCOME", "100", "--max", "3")
    entries = run_json("audit")
    assert [[each[key] for key in ("actor", "action", "subject", "organization", "note")] for each in entries] == [
        ["ada", "createCoupon", "WELCOME", None, "box"],
        ["ada", "configureOrganization", "bob-example-org", "bob-example-org", "box"],
        ["ada", "createUser", f"bob@example.org/{added['uuid']}", None, "box"],
    ]
    for entry in entries:
        assert entry["origin"].startswith(f"uid {os.getuid()}, ")
        assert entry["origin"].endswith(", 192.0.2.7")
    assert added["token"] not in json.dumps(entries)


def test_no_secret_is_in_an_entry(run: Run, run_json: RunJson, storage: Storage, monkeypatch: pytest.MonkeyPatch):
    run_json("user", "add", "bob@example.org", "--name", "Bob")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"hush-hush")))
    run_json("secret", "set", "bob-example-org", "TOKEN")
    run("image", "pull", "docker://me:hush-hush@127.0.0.1:1/none")
    run("org", "set", "bob-example-org")
    entries = storage.audit.page(10, None).rows
    assert [entry.action for entry in entries] == ["setOrganizationSecret", "createUser"], "what fails changes nothing"
    assert "hush-hush" not in str(entries)


def test_filters_select_entries(run_json: RunJson, storage: Storage):
    for number in range(3):
        storage.audit.write("bob@example.org", "createBuild", f"acme/web/{number}", "", organization="acme")
    run_json("drain")
    assert [entry["action"] for entry in run_json("audit", "--limit", "1")] == ["drain"]
    assert (
        len(run_json("audit", "--org", "acme", "--by", "bob@example.org", "--action", "create*", "--since", "1h")) == 3
    )
    assert run_json("audit", "--until", "1h") == []
    assert run_json("audit", "--since", "2000-01-01", "--until", "2000-01-02T00:00:00Z") == []


def test_a_time_that_is_none_is_refused(run: Run, capsys: pytest.CaptureFixture[str]):
    assert run("audit", "--since", "yesterday") == 2
    assert '"yesterday" is not a time: give one in UTC like 2030-01-31' in capsys.readouterr().err


def test_following_shows_new_entries(state: Path, storage: Storage):
    storage.audit.write("root", "drain", "", "before")
    with follow(state, "--json", "--action", "drain") as following:
        assert following.stdout is not None
        assert json.loads(following.stdout.readline())["note"] == "before"
        storage.audit.write("root", "resume", "", "another")
        for number in range(3):
            storage.audit.write("root", "drain", "", f"{number}")
        assert [json.loads(following.stdout.readline())["note"] for _ in range(3)] == ["0", "1", "2"]
        following.terminate()


def test_nothing_in_an_entry_does_anything_to_a_terminal(state: Path, storage: Storage):
    storage.audit.write("root", "drain", "\x1b[31mred\nline", "")
    with follow(state) as following:
        assert following.stdout is not None
        assert "\x1b" not in following.stdout.readline()
        following.terminate()


def test_the_terminal_is_named(state: Path, storage: Storage):
    ours, theirs = pty.openpty()
    try:
        command = [sys.executable, "-m", "ci_daemon", "--state-dir", str(state), "drain"]
        subprocess.run(command, stdin=theirs, stdout=subprocess.DEVNULL, check=True)
        name = os.ttyname(theirs).removeprefix("/dev/")
    finally:
        os.close(ours)
        os.close(theirs)
    assert name in str(storage.audit.page(1, None).rows[0].origin)


def test_a_schema_of_another_release_is_left_as_it_is(run: Run, state: Path, storage: Storage, tmp_path: Path):
    run_sql(state, "PRAGMA user_version = 17")
    before = storage.audit.last_id()
    run("backup", str(tmp_path / "x.backup"))
    assert (storage.audit.last_id(), storage.schema_version()) == (before, 17)
