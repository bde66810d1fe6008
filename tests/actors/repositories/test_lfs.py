"""Files of git LFS in the source of a commit, fetched by git-lfs, also of hostile commits."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.repositories.fetching.git import CommitRefused
from actors.repositories.fetching.mirror import Mirror
from actors.repositories.packing.packing import Extras, pack_commit
from actors.repositories.settings import RepositorySettings, SourceSettings
from storage import GitCredential
from tests.git_repository import GitRepository
from tests.git_servers.https import HttpsServer, https_server
from tests.git_servers.lfs import path_with_lfs
from tests.unpacking import unpacked

MAIN = "refs/heads/main"
PASSWORD = GitCredential("ci", "correct horse")
CONTENT = "a large file\n" * 1000
WITH_LFS = Extras(lfs=True)


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GitRepository:
    """A repository with a file of git LFS, and a pointer that its attributes do not call one."""
    monkeypatch.setenv("PATH", path_with_lfs())
    made = GitRepository(tmp_path / "remote")
    made.git("lfs", "install", "--local")
    made.git("lfs", "track", "*.bin")
    made.commit("Track", **{"folder__a.bin": CONTENT, "data": POINTER, "small.bin": "", "code": "1"})
    made.push("main")
    return made


@pytest.fixture
def mirror(tmp_path: Path, remote: GitRepository) -> Mirror:
    return Mirror(tmp_path / "mirror", str(remote.bare), RepositorySettings(fetch_timeout=60))


@pytest.fixture
def https(remote: GitRepository, tmp_path: Path) -> Iterator[HttpsServer]:
    with https_server(remote.bare.parents[1], tmp_path / "https") as server:
        server.users["ci"] = PASSWORD.password
        yield server


def over_https(tmp_path: Path, server: HttpsServer) -> Mirror:
    settings = RepositorySettings(ca_file=server.ca_file, fetch_timeout=60)
    return Mirror(tmp_path / "over-https", server.url("acme/web.git"), settings, PASSWORD)


def pointer(oid: str, size: int) -> str:
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n"


OID = hashlib.sha256(CONTENT.encode()).hexdigest()
POINTER = pointer(OID, len(CONTENT))


def commit_pointer(remote: GitRepository, text: str, path: str = "hostile.bin") -> str:
    """Commit a pointer as it is, without git-lfs."""
    blob = remote.git("hash-object", "-w", "--stdin", data=text.encode())
    remote.git("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
    remote.git("commit", "--quiet", "--message", "A pointer")
    remote.git("push", "--quiet", "--no-verify", "origin", "main")
    return remote.git("rev-parse", "HEAD")


def packed(mirror: Mirror, commit: str, extras: Extras = WITH_LFS) -> bytes:
    mirror.fetch()
    return pack_commit(mirror, MAIN, commit, SourceSettings(max_mb=1), extras=extras)


def test_files_take_the_places_of_pointers_by_wish(remote: GitRepository, mirror: Mirror, tmp_path: Path):
    commit = remote.git("rev-parse", "HEAD")
    source = unpacked(packed(mirror, commit), tmp_path / "workspace")
    assert (source.path / "folder" / "a.bin").read_text() == CONTENT
    assert (source.path / "data").read_text() == POINTER
    assert source.git("status", "--porcelain") == ""
    (source.path / "folder" / "a.bin").write_text("changed")
    assert source.git("status", "--porcelain") == "M folder/a.bin"
    without = unpacked(packed(mirror, commit, Extras()), tmp_path / "without")
    assert (without.path / "folder" / "a.bin").read_text().startswith("version https://git-lfs")
    shutil.rmtree(remote.bare / "lfs")
    assert packed(mirror, commit) == packed(mirror, commit), "what is here is fetched again"


def test_files_come_by_https_with_the_password(remote: GitRepository, https: HttpsServer, tmp_path: Path):
    source = unpacked(packed(over_https(tmp_path, https), remote.git("rev-parse", "HEAD")), tmp_path / "workspace")
    assert (source.path / "folder" / "a.bin").read_text() == CONTENT
    assert PASSWORD.password.encode() not in b"".join(
        each.read_bytes() for each in tmp_path.joinpath("over-https").rglob("*") if each.is_file()
    )


def test_another_server_of_files_gets_no_password(remote: GitRepository, https: HttpsServer, tmp_path: Path):
    commit = remote.git("rev-parse", "HEAD")
    with https_server(remote.bare.parents[1], tmp_path / "other") as other:
        with https.ca_file.open("ab") as trusted:
            trusted.write(other.ca_file.read_bytes())
        https.lfs_address = other.url("")[:-1]
        other.users["ci"] = PASSWORD.password
        with pytest.raises(CommitRefused, match="the files of git LFS cannot be fetched"):
            packed(over_https(tmp_path, https), commit)
        other.users.clear()
        assert packed(over_https(tmp_path / "again", https), commit)
        assert set(other.seen) == {""}


def test_settings_of_the_commit_name_no_other_server(remote: GitRepository, https: HttpsServer, tmp_path: Path):
    with https_server(remote.bare.parents[1], tmp_path / "other") as other:
        text = f"[lfs]\n\turl = {other.url('acme/web.git/info/lfs')}\n\tpushurl = {other.url('x')}\n"
        (remote.path / ".lfsconfig").write_text(text)
        remote.git("add", ".lfsconfig")
        remote.git("commit", "--quiet", "--message", "Elsewhere")
        remote.git("push", "--quiet", "--no-verify", "origin", "main")
        assert packed(over_https(tmp_path, https), remote.git("rev-parse", "HEAD"))
        assert other.seen == []


def test_pointers_that_lie_are_refused(remote: GitRepository, mirror: Mirror):
    with pytest.raises(CommitRefused, match=f"hostile.bin of git LFS has {len(CONTENT)} bytes, and not 3"):
        packed(mirror, commit_pointer(remote, pointer(OID, 3)))
    with pytest.raises(CommitRefused, match=r"raise source\.max_mb"):
        packed(mirror, commit_pointer(remote, pointer(OID, 10**12)))
    with pytest.raises(CommitRefused, match="the files of git LFS cannot be fetched"):
        packed(mirror, commit_pointer(remote, pointer("1" * 64, 3)))
    stored = remote.bare / "lfs" / "objects" / "11" / "11" / ("1" * 64)
    stored.parent.mkdir(parents=True)
    stored.write_text("no!")
    with pytest.raises(CommitRefused, match="the files of git LFS cannot be fetched"):
        packed(mirror, remote.git("rev-parse", "HEAD"))


def test_a_missing_git_lfs_is_told(
    remote: GitRepository, mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("git", "setpriv", "nice", "prlimit"):
        program = shutil.which(name)
        assert program
        (tmp_path / name).symlink_to(program)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CommitRefused, match="run `apt-get install git-lfs`"):
        packed(mirror, remote.git("rev-parse", "HEAD"))


def test_files_that_the_commit_excludes_stay_pointers(remote: GitRepository, mirror: Mirror, tmp_path: Path):
    (remote.path / ".lfsconfig").write_text("[lfs]\n\tfetchexclude = hostile.bin, elsewhere\n")
    remote.git("add", ".lfsconfig")
    commit = commit_pointer(remote, pointer("1" * 64, 10**12))
    source = unpacked(packed(mirror, commit), tmp_path / "workspace")
    assert (source.path / "folder" / "a.bin").read_text() == CONTENT
    assert (source.path / "hostile.bin").read_text() == pointer("1" * 64, 10**12)
