"""Repositories that are large, or whose files have names of every kind."""

from __future__ import annotations

import io
import random
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.repositories.fetching.mirror import Mirror
from actors.repositories.fetching.remote import GitError
from actors.repositories.packing.packing import pack_commit
from actors.repositories.settings import RepositorySettings, SourceSettings
from actors.vms.guest.source_archive import write_manifest
from tests.git_repository import GitRepository
from tests.unpacking import unpacked

MAIN = "refs/heads/main"
COMMITS, BYTES, FILES = 20_000, 10_000, 100


@pytest.fixture
def remote(tmp_path: Path) -> GitRepository:
    return GitRepository(tmp_path / "remote")


@pytest.fixture
def mirror(tmp_path: Path, remote: GitRepository) -> Mirror:
    return Mirror(tmp_path / "mirror", str(remote.bare), RepositorySettings())


@pytest.fixture
def large(remote: GitRepository, tmp_path: Path) -> Iterator[GitRepository]:
    """20,000 commits of 200 MB, each of which changes one of 100 files."""
    bytes_of = random.Random(7).randbytes
    settings = ("-c", "core.compression=0", "-c", "pack.compression=0")
    argv = ("git", "-C", str(remote.bare), *settings, "fast-import", "--quiet")
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as importing:
        assert importing.stdin is not None
        for number in range(COMMITS):
            head = f"commit {MAIN}\ncommitter Ann <ann@example.org> {1_700_000_000 + number} +0000\ndata 4\nwork\n"
            file = f"M 100644 inline folder/{number % FILES}\ndata {BYTES}\n"
            importing.stdin.write(f"{head}{file}".encode() + bytes_of(BYTES) + b"\n")
    assert importing.returncode == 0
    yield remote
    shutil.rmtree(tmp_path)


def test_20000_commits_of_200_mb_make_small_sources(large: GitRepository, mirror: Mirror, tmp_path: Path):
    heads = mirror.fetch()
    archive = pack_commit(mirror, MAIN, heads.commits[MAIN], SourceSettings(), heads.branches("main"))
    assert len(archive) < 4 * 2**20
    source = unpacked(archive, tmp_path / "workspace")
    assert source.git("rev-list", "--count", "HEAD") == "50"
    assert source.git("status", "--porcelain") == ""


def committed(remote: GitRepository, *names: bytes) -> str:
    """Commit files of these names, as no working tree may have them."""
    blob = remote.git("hash-object", "-w", "--stdin", data=b"content")
    entries = b"".join(b"100644 blob %s\t%s\0" % (blob.encode(), name) for name in names)
    commit = remote.git("commit-tree", remote.git("mktree", "-z", data=entries), "-m", "Names")
    remote.push("--force", f"{commit}:{MAIN}")
    return commit


def test_files_of_any_name_come_as_they_are(remote: GitRepository, mirror: Mirror, tmp_path: Path):
    names = [
        b"readme",
        b"README",
        b"Readme",
        b"new\nline",
        b"\xff\xfe",
        "ü".encode(),
        b"-rf",
        b" ",
        b"a\\b",
        b"*",
        b"x" * 255,
    ]
    commit = committed(remote, *names)
    mirror.fetch()
    archive = pack_commit(mirror, MAIN, commit, SourceSettings())
    with tarfile.open(fileobj=io.BytesIO(archive), errors="surrogateescape") as tar:
        found = {each.name.encode(errors="surrogateescape") for each in tar if not each.name.startswith(".git/")}
    assert found == set(names)
    (tmp_path / "archive").write_bytes(archive)
    write_manifest(tmp_path / "archive", tmp_path / "manifest", 2**20)
    assert unpacked(archive, tmp_path / "workspace").git("status", "--porcelain") == ""


@pytest.mark.parametrize(
    "name", [b".git", b".GIT", b".Git", b"git~1", b"GIT~1", b".git ", b".git.", b".git::$INDEX_ALLOCATION", b"..", b".",
             ".g\u200cit".encode()]
)  # fmt: skip
def test_a_name_that_some_system_takes_for_git_is_refused(remote: GitRepository, mirror: Mirror, name: bytes):
    committed(remote, name)
    with pytest.raises(GitError, match="hasDot"):
        mirror.fetch()


def test_a_commit_without_files_is_packed(remote: GitRepository, mirror: Mirror, tmp_path: Path):
    remote.commit("Nothing")
    remote.push("main")
    heads = mirror.fetch()
    source = unpacked(pack_commit(mirror, MAIN, heads.commits[MAIN], SourceSettings()), tmp_path / "workspace")
    assert source.git("log", "--format=%s") == "Nothing"
    assert source.git("status", "--porcelain") == ""
