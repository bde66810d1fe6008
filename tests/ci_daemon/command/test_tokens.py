from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ci_daemon.command import main
from storage import Storage, SystemClock, TokenKind
from tests.ci_daemon.conftest import RunJson

Run = Callable[..., int]
EMAIL = "ada@example.org"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def run(state: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `ci-daemon` on a state directory with one user in it."""

    def run(*arguments: str) -> int:
        return main(["--state-dir", str(state), *arguments])

    assert run("init") == 0
    assert run("user", "add", EMAIL, "--name", "Ada") == 0
    capsys.readouterr()
    return run


def test_a_session_is_how_the_first_person_signs_in(run: Run, state: Path, capsys: pytest.CaptureFixture[str]):
    assert run("token", "create", "ADA@example.org", "--kind", "session", "--description", "browser", "--json") == 0
    made = json.loads(capsys.readouterr().out)
    assert set(made) == {
        "id",
        "kind",
        "description",
        "created_at",
        "expires_at",
        "last_used_at",
        "scopes",
        "only",
        "budget_cents",
        "spent_cents",
        "token",
    }
    assert (made["kind"], made["description"]) == ("session", "browser")
    storage = Storage.open(state, SystemClock())
    try:
        caller = storage.tokens.caller(made["token"])
        assert caller is not None
        assert (caller.user.email, caller.kind) == (EMAIL, TokenKind.SESSION)
    finally:
        storage.close()


def test_an_api_key_is_the_default_and_may_expire(run: Run, capsys: pytest.CaptureFixture[str]):
    assert run("token", "create", EMAIL, "--expires-at", "2999-01-01T01:00:00+01:00", "--json") == 0
    made = json.loads(capsys.readouterr().out)
    assert made["token"].startswith("ci_")
    assert (made["kind"], made["expires_at"]) == ("api-key", "2999-01-01T00:00:00.000000Z")
    assert run("token", "create", EMAIL) == 0
    assert re.fullmatch(
        r"created the API key [0-9a-f-]{36} for ada@example\.org; shown only once: ci_\S{43}\n", capsys.readouterr().out
    )


def test_an_api_key_is_limited(run: Run, capsys: pytest.CaptureFixture[str]):
    limits = ("--scope", "start", "--scope", "fork", "--budget", "500")
    assert run("token", "create", EMAIL, *limits, "--organization", "ada-example-org", "--json") == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["scopes"], made["only"]) == (["start", "fork"], "ada-example-org")
    assert (made["budget_cents"], made["spent_cents"]) == (500, 0)


def test_tokens_are_listed_without_secrets_and_revoked_by_id(run: Run, state: Path, capsys: pytest.CaptureFixture[str]):
    assert run("token", "create", EMAIL, "--kind", "session", "--json") == 0
    made = json.loads(capsys.readouterr().out)

    assert run("token", "list", EMAIL) == 0
    shown = capsys.readouterr().out
    assert made["id"] in shown
    assert made["token"] not in shown
    assert run("token", "list", EMAIL, "--json") == 0
    assert [each["kind"] for each in json.loads(capsys.readouterr().out)] == ["api-key", "session"]

    assert run("token", "revoke", made["id"]) == 0
    assert capsys.readouterr().out == f"revoked {made['id']}\n"
    assert run("token", "revoke", made["id"]) == 1
    assert f"there is no token {made['id']}, or it is revoked" in capsys.readouterr().err
    assert run("token", "list", EMAIL, "--json") == 0
    assert [each["kind"] for each in json.loads(capsys.readouterr().out)] == ["api-key"]
    storage = Storage.open(state, SystemClock())
    try:
        assert storage.tokens.caller(made["token"]) is None
    finally:
        storage.close()


@pytest.mark.parametrize("arguments", [("create", "bob@example.org"), ("list", "bob@example.org")])
def test_an_unknown_user_has_no_tokens(run: Run, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]):
    assert run("token", *arguments) == 1
    assert capsys.readouterr().err == "ci-daemon: there is no user bob@example.org: `ci-daemon user list` shows all\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kind", "passport"], "'passport' is not one of 'api-key', 'session'"),
        (["--kind", "session", "--expires-at", "2999-01-01T00:00:00Z"], "a session ends after 30 days"),
        (["--expires-at", "2020-01-01T00:00:00Z"], '"2020-01-01T00:00:00Z" is not a future time with an offset'),
        (["--expires-at", "2999-01-01"], '"2999-01-01" is not a future time with an offset'),
        (["--expires-at", "9999-12-31T23:59:59-01:00"], "is not a future time with an offset"),
        (["--expires-at", "tomorrow"], '"tomorrow" is not a future time with an offset'),
        (["--description", " "], "give 1 to 10000 characters on one line"),
        (["--description", "a\x1b[31m"], "give 1 to 10000 characters on one line"),
    ],
)
def test_what_it_does_not_understand_is_one_sentence(
    run: Run, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
):
    assert run("token", "create", EMAIL, *arguments) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_keys_of_a_machine_account_are_made_listed_and_revoked(run_json: RunJson):
    run_json("machine", "add", "ada-example-org", "deploy-bot")
    whose = ("--machine", "ada-example-org/deploy-bot")
    made = run_json("token", "create", *whose, "--scope", "start", "--budget", "10")
    assert made["token"].startswith("ci_")
    (listed,) = run_json("token", "list", *whose)
    assert (listed["id"], listed["only"], listed["budget_cents"]) == (made["id"], "ada-example-org", 10)
    run_json("token", "revoke", *whose, made["id"])
    assert run_json("token", "list", *whose) == []
