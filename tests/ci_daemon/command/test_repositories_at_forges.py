"""`ci-daemon repo` with a token, at a real server that answers as Gitea."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import SystemClock
from tests.ci_daemon.conftest import Run, RunJson
from tests.forges.forgejo import ForgejoServer
from tests.forges.server import LocalHost, Reply, serving
from tests.processes import serving_at
from tests.records import new_owner
from tests.state import new_storage, run_sql

TOKEN = "fj-token"
ORG = ("--org", "ada-example-org")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    storage = new_storage(tmp_path / "state", SystemClock())
    new_owner(storage)
    storage.close()
    return tmp_path / "state"


@pytest.fixture
def gitea(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHost]:
    with serving(ForgejoServer("gitea"), tmp_path / "forge") as gitea:
        monkeypatch.setenv("SSL_CERT_FILE", str(gitea.ca_file))
        yield gitea


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    return str(tmp_path / "token")


def test_a_repository_is_connected_and_removed(gitea: LocalHost, token_file: str, run_json: RunJson):
    """The owner's command may name a host in any network."""
    made = run_json("repo", "connect", f"{gitea.url}/acme/web", *ORG, "--token-file", token_file)
    assert (made["provider"], made["account"], made["url"]) == ("gitea", "ci-bot", f"{gitea.url}/acme/web.git")
    assert TOKEN not in str(made)
    assert run_json("repo", "list") == [made]
    assert TOKEN not in str(run_json("audit"))
    removed = run_json("repo", "remove", made["url"], *ORG)
    assert removed["id"] == made["id"]
    assert hooks(gitea) == []
    assert run_json("repo", "list") == []


def test_a_webhook_has_the_address_where_the_service_answers(
    gitea: LocalHost, token_file: str, run_json: RunJson, state: Path
):
    """It may run by `serve --listen`. The webhook is removed though the service has moved by then."""
    connect = ("repo", "connect", f"{gitea.url}/acme/web", *ORG, "--token-file", token_file)
    for here in ("http://127.0.0.1:45678", "http://127.0.0.1:45679"):
        with serving_at(state, here):
            made = run_json(*connect)
        assert hooks(gitea) == [f"{here}/webhooks/gitea"]
    run_json("repo", "remove", made["url"], *ORG)
    assert hooks(gitea) == []


def test_connecting_again_replaces_a_token_that_cannot_be_read(
    gitea: LocalHost, token_file: str, run_json: RunJson, state: Path
):
    connect = ("repo", "connect", f"{gitea.url}/acme/web", *ORG, "--token-file", token_file)
    run_json(*connect)
    run_sql(state, "UPDATE host_connections SET credential = zeroblob(60)")
    assert run_json(*connect)["account"] == "ci-bot"
    assert len(hooks(gitea)) == 1


def hooks(gitea: LocalHost) -> list[str]:
    """Return the addresses that a host reports at."""
    assert isinstance(gitea.host, ForgejoServer)
    return [each["config"]["url"] for each in gitea.host.hooks.values()]


def test_a_refusal_is_an_error(gitea: LocalHost, token_file: str, run: Run, capsys: pytest.CaptureFixture[str]):
    connect = ("repo", "connect", f"{gitea.url}/acme/web", *ORG, "--token-file", token_file, "--provider")
    assert run(*connect, "gitlab") == 1
    assert "does not answer as gitlab does" in capsys.readouterr().err
    gitea.faults = [Reply(200, {"version": "1.22"}), Reply(401)]
    assert run(*connect, "gitea") == 1
    assert "refuses the token: it is wrong, was revoked or has expired" in capsys.readouterr().err


def test_a_webhook_that_stays_is_said(
    gitea: LocalHost, token_file: str, run: Run, run_json: RunJson, capsys: pytest.CaptureFixture[str]
):
    made = run_json("repo", "connect", f"{gitea.url}/acme/web", *ORG, "--token-file", token_file)
    gitea.faults = [Reply(503)]
    assert run("repo", "remove", made["url"], *ORG) == 0
    assert "its webhook may still be there" in capsys.readouterr().err
