"""Pushes to plain servers by https and ssh, whose builds find no credential of the service."""

from __future__ import annotations

import json
import shlex
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from storage import DeployKey, Storage, SystemClock
from tests.e2e.daemon import Build, Client, Daemon
from tests.git_repository import GitRepository
from tests.git_servers.https import HttpsServer, https_server
from tests.git_servers.lfs import path_with_lfs
from tests.git_servers.ssh import SshServer, ssh_server
from tests.waiting import until

PIPELINE = """
import harmont as hm

LOOK = '''
git describe; git diff --name-only origin/main~1...; git status --short; cat lib/code folder/a.bin 2>&1
rev needle >/tmp/planted
rev needle | grep -rlsF -f - /workspace /root /home /etc /tmp /var /run /opt /srv \
    /proc/[0-9]*/environ /proc/[0-9]*/cmdline | sed 's/^/found in /'
'''

@hm.pipeline("ci", triggers=[hm.push(branch="main")])
def ci():
    return hm.sh(LOOK, label="look", image="debian:12")
"""
PAGE = "pipelines/acme-web-ci/builds"
PASSWORD = "correct horse battery staple"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def https(root: Path) -> Iterator[HttpsServer]:
    with https_server(root, root / "https") as server:
        server.users["ci"] = PASSWORD
        yield server


@pytest.fixture(scope="module")
def ssh(root: Path) -> Iterator[SshServer]:
    with ssh_server(root / "ssh") as server:
        yield server


@pytest.fixture(scope="module")
def settings(settings: dict[str, str], https: HttpsServer) -> dict[str, str]:
    return settings | {"CI_DAEMON_REPOSITORIES_CA_FILE": str(https.ca_file), "PATH": path_with_lfs()}


def connected(daemon: Daemon, client: Client, url: str, *options: str) -> Any:
    return daemon.json("repo", "connect", url, "--org", client.org, "--name", "acme/web", "--poll", "1", *options)


def built(daemon: Daemon, client: Client, repository: GitRepository, url: str, needle: str) -> str:
    """Push a commit with the needle, written backwards, after the first look; return the log of its build."""

    def looked() -> bool:
        return any(each["url"] == url and each["checked_at"] for each in daemon.json("repo", "list"))

    until(looked, "the first look", 60)
    repository.commit("Look", needle=f"{needle[::-1]}\n")
    repository.push("main")
    until(lambda: client.request("GET", PAGE).status_code == 200 and client.get(PAGE)["data"], "the build", 90)
    build = Build(client, f"{PAGE}/1")
    assert build.finish(90)["state"] == "passed", build.record()
    return build.log("look")


def begun(folder: Path) -> GitRepository:
    made = GitRepository(folder)
    made.commit("Begin", **{".hm__pipeline.py": PIPELINE})
    made.git("tag", "--annotate", "v1", "--message", "One")
    made.push("main", "v1")
    return made


def test_a_build_by_https_has_all_but_the_password(
    daemon: Daemon, client: Client, https: HttpsServer, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The submodule is private, too, and one file is in git LFS."""
    monkeypatch.setenv("PATH", path_with_lfs())
    lib = GitRepository(root / "lib", "lib")
    commit = lib.commit("Library", code="code of the library\n")
    lib.push()
    repository = begun(root / "web")
    repository.git("lfs", "install", "--local")
    repository.git("lfs", "track", "*.bin")
    modules = '[submodule "lib"]\n\tpath = lib\n\turl = ../../../lib/acme/lib.git\n'
    repository.commit("Parts", **{"folder__a.bin": "content of LFS\n", ".gitmodules": modules})
    (repository.path / "lib").mkdir()
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{commit},lib")
    repository.git("commit", "--quiet", "--message", "Add a submodule")
    repository.push("main")
    (tmp_path / "password").write_text(PASSWORD)
    url = https.url("web/acme/web.git")
    given = ("--user", "ci", "--token-file", str(tmp_path / "password"))
    document = connected(daemon, client, url, *given, "--submodules", "--lfs")
    assert document["submodules"] is document["lfs"] is True
    log = built(daemon, client, repository, url, PASSWORD)
    lines = log.splitlines()
    assert lines[0].startswith("v1-3-g")
    assert lines[1:] == ["needle", "code of the library", "content of LFS", "found in /tmp/planted"]
    assert PASSWORD not in daemon.log


def test_a_build_by_ssh_has_all_but_the_deploy_key(
    daemon: Daemon,
    client: Client,
    ssh: SshServer,
    https: HttpsServer,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    """One file is in git LFS, and the host says by ssh where, and the token for it."""
    monkeypatch.setenv("PATH", path_with_lfs())
    repository = begun(root / "by-ssh")
    repository.git("lfs", "install", "--local")
    repository.git("lfs", "track", "*.bin")
    repository.commit("Parts", **{"folder__a.bin": "content of LFS\n"})
    repository.push("main")
    token = f"Basic {b64encode(f'ci:{PASSWORD}'.encode()).decode()}"
    https.lfs_header["Authorization"] = token
    answer = {"href": https.url("by-ssh/acme/web.git/info/lfs"), "header": https.lfs_header}
    program = tmp_path / "git-lfs-authenticate"
    program.write_text(f"#!/bin/sh\necho {shlex.quote(json.dumps(answer))}\n")
    program.chmod(0o755)
    url = ssh.url(repository.bare).replace("127.0.0.1", "localhost")
    document = connected(daemon, client, url, "--lfs")
    with closing(Storage.open(daemon.state, SystemClock())) as storage:
        (found,) = [each for each in storage.repositories.all() if each.url == url]
        key = storage.repository_credentials.of(found)
    assert isinstance(key, DeployKey)
    assert key.public_key == document["deploy_key"]
    ssh.let_run(key.public_key, tmp_path)
    daemon.command("repo", "edit", url, "--org", client.org)
    log = built(daemon, client, repository, url, key.private_key.splitlines()[2])
    assert log.splitlines()[0].startswith("v1-2-g")
    assert "content of LFS" in log.splitlines()
    assert token in https.seen
    assert [each for each in log.splitlines() if each.startswith("found")] == ["found in /tmp/planted"]
    assert key.private_key.splitlines()[2] not in daemon.log


def test_the_key_of_an_organization_fetches_submodules_too(
    daemon: Daemon, client: Client, ssh: SshServer, root: Path, tmp_path: Path
):
    """One command makes another key, which takes its place for all of them; no job has either."""
    lib = GitRepository(root / "shared-lib", "lib")
    commit = lib.commit("Library", code="code of the library\n")
    lib.push()
    repository = begun(root / "by-org")
    repository.commit("Parts", **{".gitmodules": f'[submodule "lib"]\n\tpath = lib\n\turl = {ssh.url(lib.bare)}\n'})
    (repository.path / "lib").mkdir()
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{commit},lib")
    repository.git("commit", "--quiet", "--message", "Add a submodule")
    repository.push("main")
    assert client.request("GET", "deploy-key").status_code == 404
    first = daemon.json("org", "rotate-key", client.org)["public_key"]
    ssh.let_run(first, tmp_path)
    url = ssh.url(repository.bare)
    document = connected(daemon, client, url, "--org-key", "--submodules")
    assert document["deploy_key"] == first == client.get("deploy-key")["public_key"]
    with closing(Storage.open(daemon.state, SystemClock())) as storage:
        (found,) = [each for each in storage.repositories.all() if each.url == url]
        key = storage.repository_credentials.of(found)
    assert isinstance(key, DeployKey)
    needle = key.private_key.splitlines()[2]
    lines = built(daemon, client, repository, url, needle).splitlines()
    assert "code of the library" in lines
    assert [each for each in lines if each.startswith("found")] == ["found in /tmp/planted"]
    refused = daemon.command("repo", "rotate-key", url, "--org", client.org, check=False)
    assert f"run `ci-daemon org rotate-key {client.org}`" in refused.stderr
    second = daemon.json("org", "rotate-key", client.org)["public_key"]
    assert first != second == daemon.json("repo", "key", url, "--org", client.org)["deploy_key"]
    repository.commit("Again")
    repository.push("main")

    def last_error() -> str | None:
        (found,) = [each for each in daemon.json("repo", "list") if each["url"] == url]
        return str(found["last_error"]) if found["last_error"] else None

    until(last_error, "the refusal of the new key", 60)
    ssh.let_run(second, tmp_path)
    daemon.command("repo", "edit", url, "--org", client.org)
    build = Build(client, f"{PAGE}/2")
    until(lambda: client.request("GET", f"{PAGE}/2").status_code == 200, "the build after the rotation", 90)
    assert build.finish(90)["state"] == "passed"
    assert needle not in daemon.log
