"""The owner's commands for the GitHub app."""

from __future__ import annotations

import html
import json
import re
import socket
import stat
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from ci_daemon.config import load
from ci_daemon.github_app import AppNotMade, MadeApp, Setup, convert, write_app
from tests.ci_daemon.conftest import Run, RunJson
from tests.github_server import GithubServer, private_key


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[GithubServer]:
    with GithubServer.serving() as github:
        monkeypatch.setenv("CI_DAEMON_HTTP_BASE_URL", "https://ci.example.org")
        monkeypatch.setenv("CI_DAEMON_GITHUB_API_URL", github.url)
        monkeypatch.setenv("CI_DAEMON_GITHUB_WEB_URL", github.url)
        yield github


def test_a_browser_carries_the_manifest_there_and_the_code_back():
    with Setup("https://ci.example.org", "https://github.example", "acme").listen(0) as server:
        codes: list[str] = []
        waiting = threading.Thread(target=lambda: codes.append(server.wait()))
        waiting.start()
        page = httpx.get(server.url).text
        action = html.unescape(re.findall('action="([^"]+)"', page)[0])
        manifest = json.loads(html.unescape(re.findall('value="([^"]+)"', page)[0]))
        assert action.startswith("https://github.example/organizations/acme/settings/apps/new?state=")
        assert manifest["hook_attributes"]["url"] == "https://ci.example.org/webhooks/github"
        assert manifest["public"] is False
        state = parse_qs(urlsplit(action).query)["state"][0]
        for forged in ("", "x", "é"):
            assert httpx.get(manifest["redirect_url"], params={"code": "evil", "state": forged}).status_code == 404
        assert httpx.get(manifest["redirect_url"], params={"code": "abc", "state": state}).status_code == 200
        waiting.join(10)
    assert codes == ["abc"]


def test_the_app_is_written_down_for_its_owner_alone(run_json: RunJson, run: Run, github: GithubServer, state: Path):
    github.manifests = {"abc", "def"}
    made = run_json("github", "setup", "--code", "abc")
    assert made["app_id"] == "4711"
    for written in (Path(made["private_key"]), Path(made["configuration"])):
        assert stat.S_IMODE(written.stat().st_mode) == 0o600
    config = load(state, {})
    assert config.github.read_private_key() == private_key()
    assert config.github.configured
    assert config.identity.github.client_id.startswith("Iv1.")
    assert run("github", "setup", "--code", "def") == 1


def test_another_port_is_asked_for_if_one_is_taken(run: Run, github: GithubServer, capsys: pytest.CaptureFixture[str]):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run("github", "setup", "--port", str(port)) == 1
    assert capsys.readouterr().err == (
        f"ci-daemon: cannot listen on port {port}: Address already in use: choose another --port\n"
    )


def test_what_the_configuration_says_already_stays(tmp_path: Path):
    file = tmp_path / "ci-daemon.toml"
    file.write_text('[http]\nbase_url = "https://ci.example.org"')
    secrets = {"client_id": "a", "client_secret": "b", "webhook_secret": 'c"\n[x]'}
    app = MadeApp(id=1, slug="ci", html_url="https://github.example/apps/ci", pem="pem", **secrets)
    write_app(app, file, signs_in=False)
    text = file.read_text()
    assert text.startswith('[http]\nbase_url = "https://ci.example.org"\n\n[github]\napp_id = "1"\n')
    assert "[identity.github]" not in text
    assert tomllib.loads(text)["github"]["webhook_secret"] == 'c"\n[x]'


def test_a_section_that_names_another_github_is_completed(tmp_path: Path):
    file = tmp_path / "ci-daemon.toml"
    file.write_text('[github] # ours\napi_url = "https://github.example/api/v3"\n[mail]\nhost = "mx"\n')
    secrets = {"client_id": "a", "client_secret": "b", "webhook_secret": "c"}
    write_app(MadeApp(id=1, slug="ci", html_url="https://x.example", pem="pem", **secrets), file, signs_in=True)
    written = tomllib.loads(file.read_text())
    assert written["github"] == {
        "api_url": "https://github.example/api/v3",
        "app_id": "1",
        "private_key": "github-app.pem",
        "webhook_secret": "c",
    }
    assert written["mail"] == {"host": "mx"}
    assert written["identity"]["github"] == {"client_id": "a", "client_secret": "b"}


@pytest.mark.parametrize("code", ["used", "../user", "a?b", "é"])
def test_a_wrong_code_makes_nothing(github: GithubServer, code: str):
    with pytest.raises(AppNotMade, match="code"):
        convert(github.url, code)


def test_an_installation_is_bound_by_the_owner_of_the_host(
    run: Run, run_json: RunJson, github: GithubServer, capsys: pytest.CaptureFixture[str]
):
    run_json("user", "add", "ada@example.org", "--name", "Ada")
    (org,) = [each["slug"] for each in run_json("org", "list")]
    assert run("github", "bind", "7", "--org", org) == 1
    assert "ci-daemon github setup" in capsys.readouterr().err
    github.manifests = {"abc"}
    run_json("github", "setup", "--code", "abc")
    github.install(7, "acme", 70).add(701, "acme/web", "https://github.example/acme/web.git")
    assert run_json("github", "bind", "7", "--org", org)["repositories"] == ["acme/web"]
    assert run("github", "bind", "8", "--org", org) == 1
    assert "the app has no installation 8: " in capsys.readouterr().err
    entry = run_json("audit")[0]
    assert [entry[key] for key in ("action", "subject", "organization", "note")] == [
        "bindGithubInstallation",
        f"{org}/7",
        org,
        "box",
    ]
