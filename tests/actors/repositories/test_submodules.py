"""Submodules in the source of a commit, also of commits whose author is hostile."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.repositories.fetching.git import CommitRefused
from actors.repositories.fetching.mirror import Mirror
from actors.repositories.fetching.remote import GitError
from actors.repositories.packing.packing import Extras, pack_commit
from actors.repositories.settings import RepositorySettings, SourceSettings
from storage import GitCredential
from tests.git_repository import GitRepository
from tests.git_servers.https import HttpsServer, https_server
from tests.unpacking import unpacked

MAIN = "refs/heads/main"
PASSWORD = GitCredential("ci", "correct horse")
LIB = "../../../lib/acme/lib.git"
WITH_SUBMODULES = Extras(submodules=True)


@pytest.fixture
def remote(tmp_path: Path) -> GitRepository:
    return GitRepository(tmp_path / "served" / "web")


@pytest.fixture
def lib(tmp_path: Path) -> GitRepository:
    made = GitRepository(tmp_path / "served" / "lib", "lib")
    made.commit("Library", code="1")
    made.git("tag", "--annotate", "v7", "--message", "Seven")
    made.push("main", "v7")
    return made


@pytest.fixture
def https(remote: GitRepository, tmp_path: Path) -> Iterator[HttpsServer]:
    with https_server(tmp_path / "served", tmp_path / "https") as server:
        server.users["ci"] = PASSWORD.password
        yield server


@pytest.fixture
def mirror(tmp_path: Path, https: HttpsServer) -> Mirror:
    settings = RepositorySettings(ca_file=https.ca_file, fetch_timeout=30)
    return Mirror(tmp_path / "mirror", https.url("web/acme/web.git"), settings, PASSWORD)


def add_submodule(repository: GitRepository, path: str, commit: str, url: str, name: str | None = None) -> str:
    """Commit a submodule as `git submodule add` does, but with any path and URL."""
    with (repository.path / ".gitmodules").open("a") as file:
        file.write(f'[submodule "{name or path}"]\n\tpath = {path}\n\turl = {url}\n')
    repository.git("add", ".gitmodules")
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{commit},{path}")
    repository.git("commit", "--quiet", "--message", "Add a submodule")
    repository.push("main")
    return repository.git("rev-parse", "HEAD")


def packed(mirror: Mirror, commit: str, extras: Extras = WITH_SUBMODULES) -> bytes:
    mirror.fetch()
    return pack_commit(mirror, MAIN, commit, SourceSettings(), extras=extras)


def test_submodules_and_theirs_are_packed_by_wish(
    remote: GitRepository, lib: GitRepository, mirror: Mirror, tmp_path: Path
):
    inner = GitRepository(tmp_path / "served" / "inner", "inner")
    deep = inner.commit("Inner", deep="1")
    inner.push()
    middle = add_submodule(lib, "vendor/inner", deep, "../../../inner/acme/inner.git")
    commit = add_submodule(remote, "libs/lib", middle, LIB)
    archive = packed(mirror, commit)
    assert archive == packed(mirror, commit)
    source = unpacked(archive, tmp_path / "workspace")
    assert (source.path / "libs/lib/vendor/inner/deep").read_text() == "1"
    assert source.git("status", "--porcelain") == ""
    assert source.git("submodule", "status").startswith(f"{middle} libs/lib")
    assert source.git("-C", "libs/lib", "describe") == f"v7-1-g{middle[:7]}"
    without = unpacked(packed(mirror, commit, Extras()), tmp_path / "without")
    assert list((without.path / "libs" / "lib").iterdir()) == []
    assert without.git("status", "--porcelain") == ""
    assert PASSWORD.password.encode() not in b"".join(
        each.read_bytes() for each in source.path.rglob("*") if each.is_file()
    )


def test_a_submodule_that_is_here_is_not_fetched_again(
    remote: GitRepository, lib: GitRepository, mirror: Mirror, https: HttpsServer
):
    commit = add_submodule(remote, "lib", lib.git("rev-parse", "HEAD"), LIB)
    packed(mirror, commit)
    https.seen.clear()
    assert pack_commit(mirror, MAIN, commit, SourceSettings(), extras=WITH_SUBMODULES)
    assert https.seen == []


def test_a_commit_of_no_branch_is_found_by_name(remote: GitRepository, lib: GitRepository, mirror: Mirror):
    lib.git("commit", "--quiet", "--amend", "--message", "Of no branch")
    amended = lib.git("rev-parse", "HEAD")
    lib.push(f"{amended}:refs/pull/1/head")
    assert packed(mirror, add_submodule(remote, "lib", amended, LIB))
    gone = add_submodule(remote, "gone", "1" * 40, LIB)
    with pytest.raises(CommitRefused, match=r"the submodule gone at .* cannot be fetched"):
        packed(mirror, gone)


def test_another_host_gets_no_password(
    remote: GitRepository, lib: GitRepository, mirror: Mirror, https: HttpsServer, tmp_path: Path
):
    with https_server(tmp_path / "served", tmp_path / "other") as other:
        commit = add_submodule(remote, "lib", lib.git("rev-parse", "HEAD"), other.url("lib/acme/lib.git"))
        with pytest.raises(CommitRefused, match=r"no public address: allow its network in repositories\.networks"):
            packed(mirror, commit)
        assert other.seen == []
        both = tmp_path / "both.pem"
        both.write_bytes(https.ca_file.read_bytes() + other.ca_file.read_bytes())
        settings = RepositorySettings(ca_file=both, networks=("127.0.0.0/8", "::1/128"), fetch_timeout=30)
        allowed = Mirror(tmp_path / "allowed", https.url("web/acme/web.git"), settings, PASSWORD)
        assert packed(allowed, commit)
        assert set(other.seen) == {""}
        other.users["ci"] = PASSWORD.password
        other.seen.clear()
        with pytest.raises(CommitRefused, match="asks for a user and password"):
            packed(Mirror(tmp_path / "again", https.url("web/acme/web.git"), settings, PASSWORD), commit)
        assert set(other.seen) == {""}


def test_a_strangers_commit_gets_no_submodule_by_password(remote: GitRepository, lib: GitRepository, mirror: Mirror):
    commit = add_submodule(remote, "lib", lib.git("rev-parse", "HEAD"), LIB)
    with pytest.raises(CommitRefused, match="asks for a user and password"):
        packed(mirror, commit, Extras(submodules=True, from_stranger=True))


HOSTILE_URLS = [
    "ext::sh -c touch% /tmp/pwned", "file:///etc", "/etc", "../../../../../../etc", "fd::17", "http://127.0.0.1/x",
    "https://ci:x@localhost/x", "ssh://-oProxyCommand=touch/x", "git@localhost:-x", "ssh://git@other.example.org/x",
    "https://169.254.169.254/latest", "https://localhost/x?y", "./--upload-pack=touch /tmp/pwned",
]  # fmt: skip


def test_a_hostile_url_is_refused(remote: GitRepository, mirror: Mirror):
    for url in HOSTILE_URLS:
        remote.path.joinpath(".gitmodules").unlink(missing_ok=True)
        with pytest.raises(CommitRefused, match=r"the submodule lib at .* cannot be fetched"):
            packed(mirror, add_submodule(remote, "lib", "1" * 40, url))
    assert not Path("/tmp/pwned").exists()


@pytest.mark.parametrize("text", ['[submodule "lib"]\n\tpath = -u\n\turl = -u\n', '[submodule "../x"]\n\turl = x\n'])
def test_a_gitmodules_that_git_distrusts_is_refused(remote: GitRepository, mirror: Mirror, text: str):
    (remote.path / ".gitmodules").write_text(text)
    remote.commit("Hostile")
    remote.push()
    with pytest.raises(GitError, match="gitmodules"):
        mirror.fetch()


def test_only_submodules_of_the_tree_are_packed(remote: GitRepository, lib: GitRepository, mirror: Mirror):
    """Neither a link nor a path outside the tree becomes a folder of somebody else's files."""
    remote.path.joinpath("link").symlink_to("elsewhere")
    remote.commit("Link", file="1", folder__file="1")
    head = lib.git("rev-parse", "HEAD")
    text = "".join(
        f'[submodule "s{number}"]\n\tpath = "{path}"\n\turl = {LIB}\n'
        for number, path in enumerate(("link", "file", "folder", "..", "../x", "/etc", ".git/hooks", "", "a/../b"))
    )
    remote.path.joinpath(".gitmodules").write_text(f'{text}[submodule "no url"]\n\tpath = bare\n[submodule]\n\tx\n')
    remote.git("update-index", "--add", "--cacheinfo", f"160000,{head},bare")
    remote.git("add", ".gitmodules")
    remote.git("commit", "--quiet", "--message", "Hostile paths")
    remote.push()
    commit = remote.git("rev-parse", "HEAD")
    with tarfile.open(fileobj=io.BytesIO(packed(mirror, commit))) as tar:
        names = [each.name for each in tar if not each.name.startswith(".git/")]
    assert names == [".gitmodules", "bare", "file", "folder", "folder/file", "link"]


def test_a_bomb_of_submodules_is_given_up(remote: GitRepository, mirror: Mirror, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("actors.repositories.packing.packing.MOST_SUBMODULES", 10)
    commit = remote.commit("Begin", a="1")
    remote.push()
    for level in range(4):
        paths = [f"{level}{name}" for name in "abc"]
        remote.path.joinpath(".gitmodules").unlink(missing_ok=True)
        remote.git("rm", "--quiet", "-r", "--cached", ".")
        for path in paths:
            last = add_submodule(remote, path, commit, "./.")
        commit = last
    with pytest.raises(CommitRefused, match="more than 10 submodules"):
        packed(mirror, commit)


def test_a_gitmodules_of_many_or_long_paths_is_no_fault(remote: GitRepository, mirror: Mirror):
    for paths, refused in (([str(each) for each in range(300)], True), (["x" * 200_000], False)):
        text = "".join(f'[submodule "{path[:9]}"]\n\tpath = {path}\n\turl = {LIB}\n' for path in paths)
        commit = remote.commit("Many", **{".gitmodules": text})
        remote.push("main")
        if refused:
            with pytest.raises(CommitRefused, match="names more than 256 submodules"):
                packed(mirror, commit)
        else:
            assert packed(mirror, commit)


def test_submodules_count_to_the_size_of_a_source(remote: GitRepository, lib: GitRepository, mirror: Mirror):
    large = lib.commit("Large", large="x" * 900_000)
    lib.push("main")
    add_submodule(remote, "one", large, LIB)
    commit = add_submodule(remote, "two", large, LIB)
    mirror.fetch()
    with pytest.raises(CommitRefused, match=r"raise source\.max_mb"):
        pack_commit(mirror, MAIN, commit, SourceSettings(max_mb=1), extras=WITH_SUBMODULES)
