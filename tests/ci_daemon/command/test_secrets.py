from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_daemon.command import main
from storage import NewPipeline, SecretScope, Storage, SystemClock
from tests.state import run_sql

Run = Callable[..., int]
LIMITS = ("branches", "tags", "events", "environments", "pipelines")
ORG = "ada-example-org"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def run(state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `ci-daemon` with input on stdin, on a state directory with one user and one pipeline."""

    def run(*arguments: str, stdin: bytes = b"") -> int:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        return main(["--state-dir", str(state), *arguments])

    assert run("init") == 0
    assert run("user", "add", "ada@example.org", "--name", "Ada") == 0
    storage = Storage.open(state, SystemClock())
    organization = storage.organizations.by_slug(ORG)
    assert organization is not None
    storage.pipelines.create(organization.id, NewPipeline("hello", "Hello", "r", "main"))
    storage.close()
    capsys.readouterr()
    return run


def _value(state: Path, name: str, *, of_pipeline: bool = False) -> str:
    """Read a secret, which otherwise only a job can."""
    storage = Storage.open(state, SystemClock())
    try:
        organization = storage.organizations.by_slug(ORG)
        assert organization is not None
        pipeline = storage.pipelines.by_slug(organization.id, "hello")
        assert pipeline is not None
        scope = SecretScope(organization.id, pipeline.id if of_pipeline else None)
        ((sealed,),) = run_sql(
            state,
            "SELECT value FROM secrets WHERE (organization_id, name) = (:owner, :name) AND pipeline_id IS :pipeline",
            owner=scope.organization_id,
            pipeline=scope.pipeline_id,
            name=name,
        )
        place = f"secret {scope.organization_id} {scope.pipeline_id or '-'} {name}".encode()
        return storage.vault.open(sealed, place).decode()
    finally:
        storage.close()


@pytest.mark.parametrize(
    ("stdin", "value"),
    [
        (b"hunter2", "hunter2"),
        (b"hunter2\n", "hunter2"),
        (b"hunter2\r\n", "hunter2"),
        ("one\ntwo ✓\n\n".encode(), "one\ntwo ✓\n"),
    ],
)
def test_a_secret_is_set_from_stdin_without_its_last_line_end(run: Run, state: Path, stdin: bytes, value: str):
    assert run("secret", "set", ORG, "TOKEN", stdin=stdin) == 0
    assert _value(state, "TOKEN") == value


def test_secrets_are_listed_by_name_and_deleted(run: Run, state: Path, capsys: pytest.CaptureFixture[str]):
    assert run("secret", "set", ORG, "TOKEN", "--pipeline", "hello", "--json", stdin=b"hunter2") == 0
    made = json.loads(capsys.readouterr().out)
    assert set(made) == {"name", "source", *LIMITS, "created_at", "updated_at"}
    assert run("secret", "set", ORG, "OTHER", stdin=b"other") == 0
    assert capsys.readouterr().out == f"set OTHER for {ORG}\n"
    assert _value(state, "TOKEN", of_pipeline=True) == "hunter2"

    assert run("secret", "list", ORG, "--pipeline", "hello", "--json") == 0
    listed = capsys.readouterr().out
    assert json.loads(listed) == [made]
    assert "hunter2" not in listed
    assert run("secret", "list", ORG) == 0
    assert "OTHER" in capsys.readouterr().out

    assert run("secret", "remove", ORG, "OTHER") == 0
    assert run("secret", "list", ORG) == 0
    assert capsys.readouterr().out == f"removed OTHER of {ORG}\n{ORG} has no secrets of its own\n"
    assert run("secret", "remove", ORG, "TOKEN", "--pipeline", "hello", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"removed": "TOKEN"}


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (("set", "none", "TOKEN"), b"x", 'there is no organization "none": `ci-daemon org list` shows yours'),
        (
            ("list", ORG, "--pipeline", "none"),
            b"",
            'there is no pipeline "none": `ci-daemon pipeline list ORG` shows all',
        ),
        (("remove", ORG, "TOKEN"), b"", 'there is no secret "TOKEN": `ci-daemon secret list ORG` shows all'),
        (("set", ORG, "CI_X"), b"x", "name: expected another name than CI_X, which the service sets itself"),
        (("set", ORG, "TOKEN"), b"\n", "value: expected 1 to 65536 bytes of UTF-8, not 0"),
        (("set", ORG, "TOKEN"), b"x" * 65_537, "value: expected 1 to 65536 bytes of UTF-8, not 65537"),
        (
            ("set", ORG, "TOKEN"),
            b"\xff",
            "value: expected text in UTF-8; give other bytes in base64 and have the job decode them",
        ),
    ],
)
def test_impossible_requests_are_refused_with_the_reason(
    run: Run, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], stdin: bytes, message: str
):
    assert run("secret", *arguments, stdin=stdin) == 1
    assert capsys.readouterr().err == f"ci-daemon: {message}\n"


def test_at_a_terminal_the_value_is_asked_for_and_not_shown(run: Run, state: Path):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "ci_daemon", "--state-dir", str(state), "secret", "set", ORG, "TOKEN"]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    shown = b""
    while b"Value: " not in shown:
        shown += os.read(ours, 1000)
    os.write(ours, b"hunter2\n")
    while b"set TOKEN" not in shown:
        shown += os.read(ours, 1000)
    assert process.wait(30) == 0
    os.close(ours)
    assert b"hunter2" not in shown
    assert _value(state, "TOKEN") == "hunter2"


def test_a_value_too_short_to_mask_is_told(run: Run, capsys: pytest.CaptureFixture[str]):
    assert run("secret", "set", ORG, "DEBUG", stdin=b"1\n") == 0
    told = capsys.readouterr()
    assert told.out == f"set DEBUG for {ORG}\n"
    assert told.err == "warning: DEBUG is too short to be masked in logs: set a longer value\n"


def test_limits_are_given_by_options_and_shown(run: Run, capsys: pytest.CaptureFixture[str]):
    assert run("secret", "set", ORG, "TOKEN", "--branch", "main", "--branch", "rel-*", stdin=b"hunter2") == 0
    assert run("secret", "limit", ORG, "TOKEN", "--environment", "production", "--event", "push") == 0
    assert capsys.readouterr().out.endswith(
        f"TOKEN of {ORG}: branches main, rel-*; events push; environments production\n"
    )
    assert run("secret", "limit", ORG, "TOKEN", "--no-limits", "--only-pipeline", "hello") == 0
    capsys.readouterr()
    assert run("secret", "list", ORG, "--json") == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert {name: shown[name] for name in LIMITS} == {**{key: [] for key in LIMITS}, "pipelines": ["hello"]}
    assert run("secret", "limit", ORG, "TOKEN") == 1
    assert "--no-limits" in capsys.readouterr().err
