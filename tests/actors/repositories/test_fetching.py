"""Fetches from real servers: git over https with a password, and OpenSSH's sshd with a deploy key."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from actors.repositories.fetching.mirror import Mirror
from actors.repositories.fetching.remote import GitError, Remote
from actors.repositories.fetching.remote_host import fingerprint, host_key, new_deploy_key
from actors.repositories.packing.packing import pack_commit
from actors.repositories.settings import RepositorySettings, SourceSettings
from storage import DeployKey, GitCredential
from tests.git_repository import GitRepository
from tests.git_servers.https import HttpsServer, https_server
from tests.git_servers.ssh import SshServer, ssh_server
from tests.waiting import until

MAIN = "refs/heads/main"
PASSWORD = GitCredential("ci", "correct horse")


@pytest.fixture
def remote(tmp_path: Path) -> GitRepository:
    return GitRepository(tmp_path / "remote")


@pytest.fixture
def https(remote: GitRepository, tmp_path: Path) -> Iterator[HttpsServer]:
    with https_server(remote.bare.parents[1], tmp_path / "https") as server:
        server.users["ci"] = PASSWORD.password
        yield server


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[SshServer]:
    with ssh_server(tmp_path / "ssh") as server:
        yield server


def over_https(tmp_path: Path, server: HttpsServer, credential: GitCredential | None = PASSWORD) -> Mirror:
    settings = RepositorySettings(ca_file=server.ca_file, fetch_timeout=30)
    return Mirror(tmp_path / "mirror", server.url("acme/web.git"), settings, credential)


def over_ssh(tmp_path: Path, url: str, key: DeployKey | None) -> Mirror:
    return Mirror(tmp_path / "mirror", url, RepositorySettings(fetch_timeout=30), key)


def test_a_repository_is_fetched_by_https(remote: GitRepository, https: HttpsServer, tmp_path: Path):
    commit = remote.commit(a="1")
    remote.push()
    mirror = over_https(tmp_path, https)
    assert mirror.remote_heads().commits == mirror.fetch().commits == {MAIN: commit}
    archive = pack_commit(mirror, MAIN, commit, SourceSettings())
    assert PASSWORD.password.encode() not in archive
    for each in mirror.folder.rglob("*"):
        assert each.is_dir() or PASSWORD.password.encode() not in each.read_bytes()


def test_a_wrong_password_is_told_without_it(remote: GitRepository, https: HttpsServer, tmp_path: Path):
    remote.push(f"{remote.commit(a='1')}:{MAIN}")
    with pytest.raises(GitError, match="refuses the user and password") as refused:
        over_https(tmp_path, https, GitCredential("ci", "wrong-password")).fetch()
    assert "wrong-password" not in str(refused.value)
    with pytest.raises(GitError, match="asks for a user and password"):
        over_https(tmp_path, https, None).fetch()


def test_a_redirect_is_not_followed(remote: GitRepository, https: HttpsServer, tmp_path: Path):
    """A host that is not the repository's gets neither a request nor the password."""
    with https_server(remote.bare.parents[1], tmp_path / "other") as other:
        https.redirect = other.url("")[:-1]
        with pytest.raises(GitError):
            over_https(tmp_path, https).fetch()
        assert other.seen == []


def test_a_password_is_in_no_argument_or_environment(remote: GitRepository, https: HttpsServer, tmp_path: Path):
    remote.push(f"{remote.commit(a='1')}:{MAIN}")
    looked: list[bytes] = []

    def look() -> None:
        for each in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                environment = (each / "environ").read_bytes()
                if str(tmp_path).encode() in environment:
                    looked.append((each / "cmdline").read_bytes() + environment)

    https.before_pack = look
    over_https(tmp_path, https).fetch()
    assert any(b"fetch" in each for each in looked)
    assert not [each for each in looked if PASSWORD.password.encode() in each]


def test_an_unknown_authority_is_refused(remote: GitRepository, https: HttpsServer, tmp_path: Path):
    with pytest.raises(GitError, match="certificate"):
        Mirror(tmp_path / "mirror", https.url("acme/web.git"), RepositorySettings(), PASSWORD).fetch()
    assert https.seen == []


def test_history_that_is_rewritten_during_a_fetch_is_found_later(
    remote: GitRepository, https: HttpsServer, tmp_path: Path
):
    remote.commit(a="1")
    remote.push()
    rewritten: list[str] = []

    def rewrite() -> None:
        if not rewritten:
            remote.git("commit", "--quiet", "--amend", "--message", "Rewritten")
            rewritten.append(remote.git("rev-parse", "HEAD"))
            remote.push("--force", "main")
            remote.git("-C", str(remote.bare), "reflog", "expire", "--expire=now", "--all")
            remote.git("-C", str(remote.bare), "gc", "--quiet", "--prune=now")

    https.before_pack = rewrite
    mirror = over_https(tmp_path, https)
    with pytest.raises(GitError):
        mirror.fetch()
    assert mirror.fetch().commits == {MAIN: rewritten[0]}


def test_a_killed_fetch_leaves_nothing(remote: GitRepository, https: HttpsServer, tmp_path: Path):
    remote.push(f"{remote.commit(a='1')}:{MAIN}")
    released = threading.Event()
    https.before_pack = lambda: released.wait(30) and None
    settings = RepositorySettings(ca_file=https.ca_file, fetch_timeout=1)
    mirror = Mirror(tmp_path / "mirror", https.url("acme/web.git"), settings, PASSWORD)
    try:
        with pytest.raises(GitError, match="took more than 1 s"):
            mirror.fetch()
        until(lambda: not _runs_in(mirror.path), "the end of git")
    finally:
        released.set()
    assert not [*mirror.path.rglob("*.lock"), *mirror.path.rglob("tmp_*")]


def _runs_in(folder: Path) -> bool:
    for each in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            if each.readlink() == folder:
                return True
    return False


def test_a_repository_is_fetched_by_ssh_with_its_own_key(remote: GitRepository, ssh: SshServer, tmp_path: Path):
    commit = remote.commit(a="1")
    remote.push()
    url = ssh.url(remote.bare)
    trusted = host_key(Remote.parse(url))
    assert fingerprint(trusted) in _fingerprint_by_openssh(ssh)
    key = new_deploy_key("acme/web", trusted)
    ssh.authorized.write_text(new_deploy_key("acme/other", trusted).public_key + "\n")
    with pytest.raises(GitError, match="add the one that `ci-daemon repo key` prints"):
        over_ssh(tmp_path, url, key).fetch()
    ssh.authorized.write_text(f"{key.public_key}\n")
    assert over_ssh(tmp_path, url, key).fetch().commits == {MAIN: commit}
    private = key.private_key.splitlines()[2].encode()
    for each in (tmp_path / "mirror").rglob("*"):
        assert each.is_dir() or private not in each.read_bytes()


def _fingerprint_by_openssh(ssh: SshServer) -> str:

    return subprocess.run(
        ("ssh-keygen", "-lf", ssh.folder / "host.pub"), capture_output=True, check=True
    ).stdout.decode()


def test_a_host_with_another_key_is_refused(remote: GitRepository, ssh: SshServer, tmp_path: Path):
    remote.push(f"{remote.commit(a='1')}:{MAIN}")
    url = ssh.url(remote.bare)
    other = new_deploy_key("x", "").public_key.rpartition(" ")[0]
    key = new_deploy_key("acme/web", other)
    ssh.authorized.write_text(f"{key.public_key}\n")
    with pytest.raises(GitError, match="run `ci-daemon repo trust`"):
        over_ssh(tmp_path, url, key).fetch()
    over_ssh(tmp_path, url, replace(key, host_key=host_key(Remote.parse(url)))).fetch()
    with pytest.raises(GitError, match="git ls-remote failed"):
        over_ssh(tmp_path, url, None).remote_heads()


def test_the_settings_of_the_user_are_not_read(
    remote: GitRepository, ssh: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    remote.push(f"{remote.commit(a='1')}:{MAIN}")
    ran = tmp_path / "ran"
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text(f"Host *\n  ProxyCommand touch {ran}\n")
    (tmp_path / ".gitconfig").write_text(f"[core]\n\tsshCommand = touch {ran}\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_SSH_COMMAND", f"touch {ran}")
    url = ssh.url(remote.bare)
    key = new_deploy_key("acme/web", host_key(Remote.parse(url)))
    ssh.authorized.write_text(f"{key.public_key}\n")
    over_ssh(tmp_path, url, key).fetch()
    assert not ran.exists()
