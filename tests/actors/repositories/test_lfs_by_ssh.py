"""Files of git LFS of repositories by ssh: from a real sshd, by each of the two protocols."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.repositories.fetching.git import CommitRefused
from actors.repositories.fetching.mirror import Mirror
from actors.repositories.fetching.remote import Remote
from actors.repositories.fetching.remote_host import host_key, new_deploy_key
from actors.repositories.packing.packing import Extras, pack_commit
from actors.repositories.settings import RepositorySettings, SourceSettings
from tests.git_repository import GitRepository
from tests.git_servers import lfs_transfer
from tests.git_servers.https import HttpsServer, https_server
from tests.git_servers.lfs import path_with_lfs
from tests.git_servers.ssh import SshServer, ssh_server
from tests.unpacking import unpacked

CONTENT = "a large file\n" * 10_000
AUTHENTICATE, TRANSFER = "git-lfs-authenticate", "git-lfs-transfer"


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GitRepository:
    monkeypatch.setenv("PATH", path_with_lfs())
    made = GitRepository(tmp_path / "remote")
    made.git("lfs", "install", "--local")
    made.git("lfs", "track", "*.bin")
    made.commit("Track", **{"folder__a.bin": CONTENT, "folder__b.bin": "b"})
    made.push("main")
    return made


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[SshServer]:
    with ssh_server(tmp_path / "ssh") as server:
        yield server


@pytest.fixture
def https(remote: GitRepository, tmp_path: Path) -> Iterator[HttpsServer]:
    with https_server(remote.bare.parents[1], tmp_path / "https") as server:
        yield server


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    folder = tmp_path / "programs"
    folder.mkdir()
    return folder


@pytest.fixture
def mirror(remote: GitRepository, ssh: SshServer, https: HttpsServer, programs: Path, tmp_path: Path) -> Mirror:
    url = ssh.url(remote.bare)
    key = new_deploy_key("web", host_key(Remote.parse(url)))
    ssh.let_run(key.public_key, programs)
    settings = RepositorySettings(ca_file=https.ca_file, fetch_timeout=60, networks=("127.0.0.0/8", "::1/128"))
    return Mirror(tmp_path / "mirror", url, settings, key)


def install(programs: Path, name: str, script: str) -> None:
    (programs / name).write_text(f"#!/bin/sh\n{script}\n")
    (programs / name).chmod(0o755)


def answer(programs: Path, **document: object) -> None:
    """Install a `git-lfs-authenticate` on the server that answers this."""
    install(programs, AUTHENTICATE, f"echo {shlex.quote(json.dumps(document))}")


def packed(mirror: Mirror, remote: GitRepository) -> bytes:
    mirror.fetch()
    commit, extras = remote.git("rev-parse", "HEAD"), Extras(lfs=True)
    return pack_commit(mirror, "refs/heads/main", commit, SourceSettings(max_mb=1), extras=extras)


def asked(ssh: SshServer) -> set[str]:
    """Return the programs of git LFS that were asked for."""
    return {each.split()[0] for each in ssh.commands if each.startswith("git-lfs")}


def test_files_come_from_where_the_host_says_by_ssh(
    remote: GitRepository, mirror: Mirror, https: HttpsServer, ssh: SshServer, programs: Path, tmp_path: Path
):
    given = {"Authorization": "RemoteAuth token", "X-Of-Host": "yes"}
    answer(programs, href=https.url("acme/web.git/info/lfs"), header=given, expires_in=60)
    source = unpacked(packed(mirror, remote), tmp_path / "workspace")
    assert (source.path / "folder" / "a.bin").read_text() == CONTENT
    (batch, headers), *others = https.requests
    assert batch.endswith("/info/lfs/objects/batch")
    assert given.items() <= headers.items()
    assert len(others) == 2, "each object once"
    assert not any(given.keys() & headers.keys() for _, headers in others), "they are of the API alone"
    assert asked(ssh) == {AUTHENTICATE}
    assert packed(mirror, remote)
    assert len(https.requests) == 3, "what is here is fetched again"


def test_files_come_by_ssh_alone(
    remote: GitRepository, mirror: Mirror, https: HttpsServer, ssh: SshServer, programs: Path, tmp_path: Path
):
    install(programs, TRANSFER, f'exec {sys.executable} {lfs_transfer.__file__} "$@"')
    source = unpacked(packed(mirror, remote), tmp_path / "workspace")
    assert (source.path / "folder" / "a.bin").read_text() == CONTENT
    assert (source.path / "folder" / "b.bin").read_text() == "b"
    assert asked(ssh) == {AUTHENTICATE, TRANSFER}
    assert https.requests == []


def test_git_lfs_leaves_no_temporary_folder(
    remote: GitRepository, mirror: Mirror, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It makes one for each connection by ssh, if it thinks that several go through one."""
    install(programs, TRANSFER, f'exec {sys.executable} {lfs_transfer.__file__} "$@"')
    temporary, first = tmp_path / "temporary", tmp_path / "first"
    temporary.mkdir()
    first.mkdir()
    install(first, "git-lfs", f'TMPDIR={temporary} exec {shutil.which("git-lfs")} "$@"')
    monkeypatch.setenv("PATH", str(first), prepend=os.pathsep)
    assert packed(mirror, remote)
    assert list(temporary.iterdir()) == []


def test_a_host_sends_git_lfs_nowhere_at_a_second_question(
    remote: GitRepository, mirror: Mirror, https: HttpsServer, programs: Path, tmp_path: Path
):
    """The program fails at first, so that git-lfs fetches by ssh alone, and then has a URL for it."""
    once = tmp_path / "once"
    answered = shlex.quote(json.dumps({"href": https.url("acme/web.git/info/lfs")}))
    install(programs, AUTHENTICATE, f"test -e {once} && echo {answered} || {{ touch {once}; exit 1; }}")
    with pytest.raises(CommitRefused, match="the files of git LFS cannot be fetched"):
        packed(mirror, remote)
    assert once.exists()
    assert https.requests == []


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 1", "127.0.0.1 has no git-lfs-authenticate, and fetching by git-lfs-transfer failed"),
        ("echo 'not JSON'", "with something else than a URL"),
        ("echo '[]'", "with something else than a URL"),
        ("""echo '{"href": "file:///etc/passwd"}'""", "git LFS is not fetched from file:///etc/passwd"),
        ("""echo '{"href": "ssh://127.0.0.1/x"}'""", "git LFS is not fetched from ssh://127.0.0.1/x"),
        ("""echo '{"href": "https://[::1"}'""", "cannot be reached"),
        ("""echo '{"href": "http://127.0.0.1:1", "header": {"A\\\\n": "x"}}'""", "cannot be reached"),
        ("yes", "with more than 65536 bytes"),
    ],
)
def test_answers_of_a_host_that_lead_nowhere_are_told(
    remote: GitRepository, mirror: Mirror, programs: Path, script: str, words: str
):
    install(programs, AUTHENTICATE, script)
    with pytest.raises(CommitRefused, match=r"(?s)the files of git LFS cannot be fetched.*" + words):
        packed(mirror, remote)


def test_a_host_that_does_not_answer_ends_in_time(remote: GitRepository, mirror: Mirror, programs: Path):
    install(programs, AUTHENTICATE, "exec tail -f /dev/null")
    mirror.fetch()
    mirror.seconds = 3.0
    with pytest.raises(CommitRefused, match="does not answer git-lfs-authenticate in time"):
        packed(mirror, remote)


def test_the_usual_address_stands_for_one_left_out(remote: GitRepository, mirror: Mirror, programs: Path):
    """Nothing is at the usual port here."""
    answer(programs, header={"Authorization": "RemoteAuth token"})
    with pytest.raises(CommitRefused, match=r"127\.0\.0\.1 cannot be reached"):
        packed(mirror, remote)


def test_what_is_larger_than_a_mirror_may_be_is_not_fetched(
    remote: GitRepository, mirror: Mirror, https: HttpsServer, programs: Path
):
    answer(programs, href=https.url("acme/web.git/info/lfs"))
    mirror.fetch()
    mirror.git.max_bytes = mirror.git.max_bytes - mirror.git.free_bytes() + len(CONTENT) // 2
    with pytest.raises(CommitRefused, match=r"raise repositories\.max_mirror_gb"):
        packed(mirror, remote)
    assert https.requests == []
