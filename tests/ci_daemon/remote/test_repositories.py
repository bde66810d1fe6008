"""`ci-daemon repo` with a server: what its API does, and who does the rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.repositories import new_deploy_key
from ci_daemon.command import main
from storage import GitCredential, Repository
from tests.ci_daemon.remote.conftest import Printed, RunJson
from tests.ci_daemon.scripted_service import ScriptedService
from tests.forges.forgejo import ForgejoServer
from tests.forges.server import LocalHost, serving

SSH = "ssh://git@git.example.org/acme/web.git"
HTTPS = "https://git.example.org/acme/lib.git"
pytestmark = pytest.mark.usefixtures("at_server")


@pytest.fixture
def forge(service: ScriptedService, tmp_path: Path) -> Iterator[LocalHost]:
    with serving(ForgejoServer(), tmp_path / "forge") as forge:
        service.forge = forge
        service.restart()
        yield forge


@pytest.fixture
def plain(service: ScriptedService) -> Repository:
    """A repository on a plain git server, with a deploy key."""
    organization = service.storage.organizations.by_slug(service.org)
    assert organization is not None
    connected = service.storage.repositories.connect(organization.id, SSH, "acme/web", 60)
    service.storage.repository_credentials.put(connected, new_deploy_key("acme/web", "ssh-ed25519 AAAA"))
    other = service.storage.repositories.connect(organization.id, HTTPS, "acme/lib", 60)
    service.storage.repository_credentials.put(other, GitCredential("ci", "secret"))
    return connected


def test_a_repository_is_connected_changed_and_removed(
    service: ScriptedService,
    forge: LocalHost,
    tmp_path: Path,
    run_json: RunJson,
    printed: Printed,
    monkeypatch: pytest.MonkeyPatch,
):
    (tmp_path / "token").write_text("fj-token\n")
    token, org = ("--token-file", str(tmp_path / "token")), ("--org", service.org)
    made = run_json("repo", "connect", f"{forge.url}/acme/web", *org, *token)
    url = made["url"]
    assert (made["provider"], made["repo_name"], made["lfs"]) == ("forgejo", "acme/web", False)
    edited = run_json("repo", "edit", url, *org, "--lfs")
    assert (edited["id"], edited["lfs"], edited["submodules"]) == (made["id"], True, False)
    [listed] = run_json("repo", "list")
    assert run_json("repo", "list", *org) == [listed]
    with monkeypatch.context() as on_box:
        on_box.setenv("CI_DAEMON_STATE_DIR", str(service.storage.directory))
        [of_box] = run_json("repo", "list", *org)
    del listed["checked_at"], of_box["checked_at"]  # the server tells when its host was asked
    assert listed == {key: of_box[key] for key in listed}
    assert printed("repo", "list")[0].split() == ["org", "url", "provider", "repo", "name", "checked", "last", "error"]
    assert printed("repo", "remove", url, *org) == [f"pushes to {url} are no longer built for {service.org}"]
    assert printed("repo", "list") == ["no repository is connected: `ci-daemon repo connect` connects one"]


def test_a_plain_repository_tells_its_key_and_its_hook(service: ScriptedService, plain: Repository, run_json: RunJson):
    key = run_json("repo", "key", SSH, "--org", service.org)
    assert (key["id"], key["deploy_key"].split()[0]) == (plain.uuid, "ssh-ed25519")
    assert key["host_key_fingerprint"].startswith("SHA256:")
    hook = run_json("repo", "hook", SSH, "--org", service.org)
    assert f"{service.url}/webhooks/git" in hook["hook_script"]
    assert run_json("repo", "remove", SSH, "--org", service.org)["id"] == plain.uuid


def test_a_repository_is_shown_with_its_last_pushes(
    service: ScriptedService,
    plain: Repository,
    run_json: RunJson,
    printed: Printed,
    monkeypatch: pytest.MonkeyPatch,
):
    """By a server and on the box alike, by its URL or its name."""
    outcomes, why = service.storage.push_outcomes, "0 builds: no pipeline has a trigger for it"
    outcomes.record(plain.id, "refs/heads/main", "a" * 40, "1 build: web #3", ["acme/pipelines/web/builds/3"])
    outcomes.record(plain.id, "refs/tags/v1", "b" * 40, why)
    service.storage.repository_checks.failed(plain, "no such host")
    shown = run_json("repo", "show", SSH)
    assert (shown["url"], shown["last_error"]) == (SSH, "no such host")
    assert [(each["name"], each["outcome"], each["builds"]) for each in shown["pushes"]] == [
        ("tags/v1", why, []),
        ("main", "1 build: web #3", ["acme/web/3"]),
    ]
    text = "\n".join(printed("repo", "show", "acme/web"))
    assert "no such host" in text
    assert "1 build: web #3" in text
    monkeypatch.setenv("CI_DAEMON_STATE_DIR", str(service.storage.directory))
    of_box = run_json("repo", "show", "acme/web", "--org", service.org)
    assert shown == {key: of_box[key] for key in shown}


def test_reports_of_its_host_are_shown_and_processed_again(
    service: ScriptedService, plain: Repository, run_json: RunJson, capsys: pytest.CaptureFixture[str]
):
    """By a server and on the box alike."""
    assert service.storage.deliveries.receive("git", "push", "1", plain, b"a b refs/heads/main")
    [listed] = run_json("webhook", "list")
    assert (listed["provider"], listed["url"], listed["state"]) == ("git", SSH, "waiting")
    shown = run_json("webhook", "show", listed["id"])
    assert shown == {**listed, "body": "a b refs/heads/main"}
    assert run_json("webhook", "redeliver", listed["id"]) == listed
    assert main(["webhook", "show", "nothing"]) == 1
    assert 'there is no delivery "nothing": `ci-daemon webhook list`' in capsys.readouterr().err
    box = ("--state-dir", str(service.storage.directory))
    assert run_json(*box, "webhook", "list") == [listed]
    assert run_json(*box, "webhook", "show", listed["id"]) == shown


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("show", "acme/none"), "acme/none is not connected: `ci-daemon repo list` shows what is"),
        (("connect", "https://git.example.org/acme/new.git"), "owner of the service's host, who runs `ci-daemon repo"),
        (("edit", SSH, "--poll", "30"), "the owner of its host runs `ci-daemon repo edit` there"),
        (("rotate-key", SSH), "`ci-daemon repo rotate-key` works only on the box"),
        (("trust", SSH), "`ci-daemon repo trust` works only on the box"),
        (("key", HTTPS), "only repositories with an ssh URL have one"),
        (("key", "https://git.example.org/none.git"), "`ci-daemon repo list` shows what is"),
        (("connect", HTTPS, "--token-file", "/dev/null"), "/dev/null is empty: write a token of the host's into it"),
        (
            ("connect", HTTPS, "--poll", "5", "--token-file", "-"),
            "--name, --poll and --org-key are for plain git servers",
        ),
    ],
)
def test_what_cannot_be_done_names_the_way(
    service: ScriptedService, words: tuple[str, ...], advice: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["repo", *words, "--org", service.org]) in {1, 2}
    said = capsys.readouterr().err
    assert advice in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("words", [("org", "set", "acme", "--weight", "2"), ("debug", "acme/web/1"), ("status",)])
def test_a_command_of_the_box_alone_says_so(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    """Also if the caller names a server, whose host may be this one."""
    for place in ([], ["--context", "work"]):
        assert main([*place, *words]) == 1
        assert "works only on the box, the host of the service" in capsys.readouterr().err
