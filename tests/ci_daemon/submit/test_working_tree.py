"""The files of a working tree that are packed: those of its checkout, as git has them."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from ci_daemon.submit import pack
from tests.git_repository import GitRepository


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    return GitRepository(tmp_path)


def packed(tree: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(pack(tree).data)) as tar:
        return {member.name: member for member in tar.getmembers()}


def names(tree: Path) -> set[str]:
    return set(packed(tree))


def write(tree: Path, *paths: str) -> None:
    for path in paths:
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text("")


def test_tracked_files_are_packed_though_ignored(repository: GitRepository):
    write(repository.path, "wrapper.jar", "build/kept", "build/deep/kept", "build/not", "not.jar", "new")
    (repository.path / ".gitignore").write_text("*.jar\nbuild/\n")
    repository.git("add", "--force", "wrapper.jar", "build/kept", "build/deep/kept", ".gitignore")
    assert names(repository.path) == {".gitignore", "wrapper.jar", "build/kept", "build/deep/kept", "new"}
    assert names(repository.path / "build") == {"kept", "deep/kept"}


def test_what_git_excludes_elsewhere_is_not_packed(repository: GitRepository):
    write(repository.path, "a", "notes.mine")
    exclude = repository.path / ".git" / "info" / "exclude"
    exclude.parent.mkdir(exist_ok=True)
    exclude.write_text("*.mine\n")
    assert names(repository.path) == {"a"}


def test_removed_and_replaced_files_are_packed_as_they_are(repository: GitRepository, tmp_path: Path):
    repository.commit(gone="", folder__a="", was__a="", file="")
    outside = tmp_path / "outside"
    write(outside, "a")
    (repository.path / "gone").unlink()
    (repository.path / "file").unlink()
    write(repository.path, "file/now", "other/a")
    (repository.path / "was" / "a").unlink()
    (repository.path / "was").rmdir()
    (repository.path / "was").symlink_to("other")
    assert names(repository.path) == {"folder/a", "file", "file/now", "other/a", "was"}


@pytest.mark.parametrize("git", [True, False])
def test_empty_folders_are_packed_unless_ignored(repository: GitRepository, tmp_path: Path, git: bool):
    tree = repository.path if git else tmp_path / "plain"
    write(tree, "src/a", "untracked/b", "untracked/node_modules/big/c", "untracked/node_modules/.lock")
    (tree / ".gitignore").write_text("ignored/\nnode_modules\n")
    for folder in ("empty", "src/deep/empty", "ignored", "ignored/in", "untracked/empty", "data/in/out"):
        (tree / folder).mkdir(parents=True)
    if git:
        repository.git("add", "src")
    found = packed(tree)
    folders = {"empty", "src/deep/empty", "untracked/empty", "data/in/out"}
    assert {name for name, member in found.items() if member.isdir()} == folders
    assert set(found) - folders == {".gitignore", "src/a", "untracked/b"}
    assert pack(tree).files == 3


def test_submodules_and_repositories_within_are_packed(repository: GitRepository, tmp_path: Path):
    lib = GitRepository(tmp_path / "lib")
    lib.commit(x="", **{".gitignore": "*.o\n", "kept.txt": ""})
    lib.push("main")
    repository.commit(a="")
    allow = ("-c", "protocol.file.allow=always")
    repository.git(*allow, "submodule", "add", "--quiet", str(lib.bare), "vendor/lib")
    repository.git(*allow, "submodule", "add", "--quiet", str(lib.bare), "vendor/away")
    repository.commit("Modules")
    repository.git("submodule", "deinit", "--quiet", "vendor/away")
    write(repository.path, "vendor/lib/new", "vendor/lib/ignored.o")
    repository.git("clone", "--quiet", str(lib.bare), "beside")
    inside = {".gitignore", "x", "kept.txt"}
    expected = {".gitmodules", "a", "vendor/away", "vendor/lib/new"}
    expected |= {f"{folder}/{each}" for folder in ("vendor/lib", "beside") for each in inside}
    assert names(repository.path) == expected


def test_a_checkout_without_modes_has_those_of_the_index(repository: GitRepository):
    write(repository.path, "run.sh", "plain")
    (repository.path / "run.sh").chmod(0o755)
    repository.commit()
    repository.git("config", "core.fileMode", "false")
    (repository.path / "run.sh").chmod(0o644)
    (repository.path / "plain").chmod(0o755)
    found = packed(repository.path)
    assert (found["run.sh"].mode, found["plain"].mode) == (0o755, 0o644)


def test_a_hook_may_pack_another_tree(repository: GitRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    repository.commit(a="")
    other = GitRepository(tmp_path / "other")
    other.commit(b="")
    monkeypatch.setenv("GIT_DIR", str(repository.path / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(repository.path / ".git" / "index"))
    assert names(other.path) == {"b"}


def test_a_tree_without_git_on_the_path_keeps_its_rules(repository: GitRepository, monkeypatch: pytest.MonkeyPatch):
    write(repository.path, "a", "b.o")
    (repository.path / ".gitignore").write_text("*.o\n")
    monkeypatch.setenv("PATH", os.devnull)
    assert names(repository.path) == {".gitignore", "a"}
