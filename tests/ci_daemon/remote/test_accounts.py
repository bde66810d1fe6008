"""`ci-daemon org`, `member`, `invite`, `token`, `usage` and `ledger` with a server."""

from __future__ import annotations

import io

import pytest

from ci_daemon.command import main
from storage import LedgerSource, NewPipeline, Role
from tests.ci_daemon.remote.conftest import Printed, RunJson
from tests.ci_daemon.scripted_service import ScriptedService

pytestmark = pytest.mark.usefixtures("at_server")


def test_people_are_invited_changed_and_removed(
    service: ScriptedService,
    run_json: RunJson,
    printed: Printed,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    invited = run_json("invite", "create", service.org, "bob@example.org", "--role", "admin")
    assert [each["email"] for each in run_json("invite", "list", service.org)] == ["bob@example.org"]
    bob = service.storage.users.create("bob@example.org", "Bob")
    _, key = service.storage.tokens.create_api_key(bob.id, "bob's")
    with monkeypatch.context() as of_bob:
        of_bob.setenv("CI_DAEMON_TOKEN", key)
        of_bob.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{invited['token']}\n".encode())))
        assert printed("invite", "accept") == [f"you are a member of {service.org}"]
        assert main(["member", "set", service.org, "ada@example.org", "--role", "member"]) == 1
        assert "owner" in capsys.readouterr().err
    assert [each["role"] for each in run_json("member", "list", service.org)] == [Role.OWNER, Role.ADMIN]
    assert printed("member", "set", service.org, "Bob@example.org", "--role", "member") == [
        f"bob@example.org is a member of {service.org}"
    ]
    assert printed("member", "remove", service.org, "bob@example.org") == [
        f"removed bob@example.org from {service.org}"
    ]
    assert main(["member", "remove", service.org, "bob@example.org"]) == 1
    assert "is no member of" in capsys.readouterr().err


def test_an_invite_is_revoked(service: ScriptedService, run_json: RunJson, printed: Printed):
    invited = run_json("invite", "create", service.org, "bob@example.org")
    assert printed("invite", "revoke", service.org, invited["id"]) == [f"revoked {invited['id']}"]
    assert printed("invite", "list", service.org) == [f"{service.org} has no invites"]


def test_the_ledger_is_listed_as_on_the_box(
    service: ScriptedService, run_json: RunJson, monkeypatch: pytest.MonkeyPatch
):
    organization = service.storage.organizations.by_slug(service.org)
    assert organization is not None
    service.storage.ledger.append(organization.id, -7, LedgerSource.REFUND, "sorry\x1b[2J")
    of_server = run_json("ledger", "list", service.org)
    assert [each["amount_cents"] for each in of_server] == [-7, 1000]
    assert len(run_json("ledger", "list", service.org, "--limit", "1")) == 1
    monkeypatch.setenv("CI_DAEMON_STATE_DIR", str(service.storage.directory))
    assert run_json("ledger", "list", service.org) == of_server


def test_usage_is_summed_and_told_by_day_and_build(service: ScriptedService, run_json: RunJson, printed: Printed):
    used = run_json("usage", service.org)
    assert (used["cpu_seconds"], used["balance_cents"]) == (0, 1000)
    days = run_json("usage", service.org, "--by", "day", "--from", "2026-01-01", "--to", "2026-01-03")
    assert [each["date"] for each in days] == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert printed("usage", service.org, "--by", "build") == [f"{service.org} built nothing"]


def test_people_and_pipelines_are_searched(service: ScriptedService, run_json: RunJson, printed: Printed):
    organization = service.storage.organizations.by_slug(service.org)
    assert organization is not None
    new = NewPipeline(slug="shop", name="Web shop", repository="r", default_branch="main")
    service.storage.pipelines.create(organization.id, new)
    assert run_json("search", "WEB", "sh")["pipelines"] == [
        {"org": service.org, "pipeline_slug": "shop", "name": "Web shop"}
    ]
    assert any(f"{service.org}/shop" in line for line in printed("search", "shop"))
    assert printed("search", "xyzzy") == ["nothing has all of these words"]


def test_a_command_of_servers_alone_says_so_on_the_box(
    service: ScriptedService, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("CI_DAEMON_STATE_DIR", str(service.storage.directory))
    assert main(["usage", service.org]) == 1
    assert "`ci-daemon usage` works only with a server" in capsys.readouterr().err


def test_a_session_makes_api_keys(
    service: ScriptedService, run_json: RunJson, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert main(["token", "create"]) == 1
    assert "send a session token: `ci-daemon login URL` makes one" in capsys.readouterr().err
    caller = service.storage.tokens.caller(service.token)
    assert caller is not None
    monkeypatch.setenv("CI_DAEMON_TOKEN", service.storage.tokens.create_session(caller.user.id, "laptop")[1])
    made = run_json("token", "create", "--description", "for scripts", "--expires-at", "2036-01-01T00:00:00Z")
    assert service.storage.tokens.caller(made["token"]) is not None
    assert run_json("token", "list")[0]["description"] == "for scripts"
    assert run_json("token", "revoke", made["id"]) == {"revoked": made["id"]}
    assert service.storage.tokens.caller(made["token"]) is None
    assert main(["token", "list", "ada@example.org"]) == 1
    assert "leave EMAIL out" in capsys.readouterr().err


def test_an_organization_is_made_and_listed(service: ScriptedService, run_json: RunJson, printed: Printed):
    assert run_json("org", "create", "Acme", "--url", "https://acme.example.org")["slug"] == "acme"
    assert [each["slug"] for each in run_json("org", "list")] == [service.org, "acme"]
    assert printed("org", "list")[0].split() == ["slug", "name", "url"]
    assert printed("org", "create", "Other", "--owner", "bob@example.org", code=1) == []
