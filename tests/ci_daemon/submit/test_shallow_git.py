"""The .git of a submitted working tree: as git finds it in a job, of repositories in any state."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from actors.repositories import LFS_CLEAN
from ci_daemon.submit import PackError, git_folder, pack
from tests.git_repository import GitRepository
from tests.unpacking import unpacked


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    """A branch of two commits, beside a default branch that has moved on since."""
    made = GitRepository(tmp_path / "100% of: it")
    made.commit("Begin", a="1", b="1", **{".gitignore": "ignored\n"})
    made.git("tag", "--annotate", "v1", "--message", "One")
    made.push("main")
    made.git("checkout", "--quiet", "-b", "topic")
    made.commit("Topic", c="1")
    made.git("checkout", "--quiet", "main")
    made.commit("Meanwhile", d="1")
    made.push("main")
    made.git("checkout", "--quiet", "topic")
    return made


def submitted(tree: Path, into: Path) -> GitRepository:
    """Pack a tree twice, which must be the same, and unpack it as a job would."""
    archives = []
    for _ in range(2):
        with git_folder(tree) as history:
            archives.append(pack(tree, history=history).data)
    assert archives[0] == archives[1]
    return unpacked(archives[0], into)


def test_git_works_in_a_submitted_tree(repository: GitRepository, tmp_path: Path):
    job = submitted(repository.path, tmp_path / "job")
    head = repository.git("rev-parse", "HEAD")
    assert job.git("describe") == f"v1-1-g{head[:7]}"
    assert job.git("status", "--porcelain", "--branch").startswith("## topic")
    assert job.git("diff", "--name-only", "origin/main...") == "c"
    assert job.git("log", "--format=%s") == "Topic\nBegin"


def test_what_is_not_committed_is_a_change(repository: GitRepository, tmp_path: Path):
    (repository.path / "a").write_text("2")
    (repository.path / "b").unlink()
    (repository.path / "new").write_text("1")
    (repository.path / "staged").write_text("1")
    (repository.path / "ignored").write_text("1")
    repository.git("add", "staged")
    job = submitted(repository.path, tmp_path / "job")
    assert job.git("status", "--porcelain").split("\n") == ["M a", " D b", "?? new", "?? staged"]
    assert not (job.path / "ignored").exists()


def test_hooks_settings_and_passwords_are_not_packed(repository: GitRepository, tmp_path: Path):
    hook = repository.path / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n# hunter2\n")
    hook.chmod(0o755)
    repository.git("remote", "set-url", "origin", "https://ann:hunter2@git.example.org/acme/web.git")
    repository.git("remote", "add", "other", "ssh://ann:hunter2@git.example.org/acme/web.git")
    repository.git("config", "http.extraHeader", "Authorization: hunter2")
    (repository.path / ".git" / "info" / "exclude").write_text("hunter2\n")
    repository.git("stash", "store", "--message", "hunter2", repository.git("stash", "create") or "HEAD")
    job = submitted(repository.path, tmp_path / "job")
    assert not [each for each in job.path.rglob("*") if each.is_file() and b"hunter2" in each.read_bytes()]
    assert job.git("remote", "get-url", "origin") == "https://git.example.org/acme/web.git"
    assert job.git("remote") == "origin"
    assert list((job.path / ".git").glob("hooks/*")) == []
    repository.git("remote", "set-url", "origin", "ssh://ann:hunter2@git.example.org/acme/web.git")
    assert submitted(repository.path, tmp_path / "again").git("remote") == ""


def test_a_detached_head_has_no_branch(repository: GitRepository, tmp_path: Path):
    repository.git("checkout", "--quiet", "--detach", "HEAD~1")
    job = submitted(repository.path, tmp_path / "job")
    assert job.git("describe") == "v1"
    assert job.git("branch", "--show-current") == ""


def test_working_trees_beside_and_shallow_clones_work(repository: GitRepository, tmp_path: Path):
    beside, shallow = tmp_path / "beside", tmp_path / "shallow"
    repository.git("worktree", "add", "--quiet", "-b", "more", str(beside), "topic")
    assert (beside / ".git").is_file()
    job = submitted(beside, tmp_path / "job")
    assert job.git("branch", "--show-current") == "more"
    assert job.git("status", "--porcelain") == ""
    subprocess.run(
        ("git", "clone", "--quiet", "--depth=1", f"file://{repository.bare}".replace("%", "%25"), shallow),
        check=True,
        env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"},
    )
    assert submitted(shallow, tmp_path / "of-shallow").git("rev-list", "--count", "HEAD") == "1"


def test_a_tree_without_a_commit_of_its_own_is_refused(repository: GitRepository, tmp_path: Path):
    for tree, why in (
        (tmp_path, "is not in a git repository: leave --git out"),
        (repository.bare, "is not in a git repository"),
        (repository.path / "folder", "is a folder of the git repository .*: submit that"),
        (tmp_path / "empty", "has no commit yet: make one, or leave --git out"),
    ):
        tree.mkdir(exist_ok=True)
        if tree.name == "empty":
            subprocess.run(("git", "init", "--quiet", tree), check=True)
        with pytest.raises(PackError, match=why), git_folder(tree):
            pass


def test_a_tree_without_origin_has_its_own_history(tmp_path: Path):
    made = GitRepository(tmp_path / "alone")
    made.commit("Begin", a="1")
    made.git("remote", "remove", "origin")
    job = submitted(made.path, tmp_path / "job")
    assert job.git("log", "--format=%s") == "Begin"
    assert job.git("remote") == ""


def status(tree: Path, tmp_path: Path) -> str:
    return submitted(tree, tmp_path / "job").git("status", "--porcelain")


def test_a_sparse_checkout_is_no_change(repository: GitRepository, tmp_path: Path):
    repository.commit("Folders", one__x="1", two__y="2")
    repository.git("sparse-checkout", "set", "one")
    assert not (repository.path / "two").exists()
    assert status(repository.path, tmp_path) == ""


def test_files_with_line_ends_of_windows_are_no_change(repository: GitRepository, tmp_path: Path):
    repository.commit("Lines", text="a\nb\n")
    repository.git("config", "core.autocrlf", "true")
    (repository.path / "text").unlink()
    repository.git("checkout", "--", "text")
    assert (repository.path / "text").read_bytes() == b"a\r\nb\r\n"
    assert status(repository.path, tmp_path) == ""


def test_attributes_of_the_checkout_alone_count(repository: GitRepository, tmp_path: Path):
    attributes = repository.path / ".git" / "info" / "attributes"
    attributes.parent.mkdir(exist_ok=True)
    attributes.write_text("*.bat text eol=crlf\n")
    repository.commit("Lines", **{"run.bat": "a\n"})
    (repository.path / "run.bat").write_bytes(b"a\r\n")
    assert status(repository.path, tmp_path) == ""


def test_modes_and_links_that_files_lack_are_no_change(repository: GitRepository, tmp_path: Path):
    (repository.path / "run.sh").write_text("")
    (repository.path / "run.sh").chmod(0o755)
    (repository.path / "link").symlink_to("a")
    repository.commit("Modes")
    for name in ("core.fileMode", "core.symlinks"):
        repository.git("config", name, "false")
    (repository.path / "run.sh").chmod(0o644)
    (repository.path / "link").unlink()
    (repository.path / "link").write_text("a")
    assert status(repository.path, tmp_path) == ""


def test_overlooked_and_excluded_files_are_no_change(repository: GitRepository, tmp_path: Path):
    (repository.path / ".git" / "info").mkdir(exist_ok=True)
    (repository.path / ".git" / "info" / "exclude").write_text("*.mine\n")
    (repository.path / "notes.mine").write_text("1")
    repository.git("update-index", "--assume-unchanged", "a")
    (repository.path / "a").write_text("changed")
    (repository.path / "new").write_text("1")
    repository.git("add", "new")
    repository.git("update-index", "--assume-unchanged", "new")
    assert status(repository.path, tmp_path) == "?? new"


def test_submodules_and_empty_folders_are_no_change(repository: GitRepository, tmp_path: Path):
    lib = GitRepository(tmp_path / "lib")
    lib.commit(x="1")
    lib.push("main")
    for name in ("lib", "away"):
        repository.git("-c", "protocol.file.allow=always", "submodule", "add", "--quiet", str(lib.bare), name)
    repository.commit("Modules")
    repository.git("submodule", "deinit", "--quiet", "away")
    (repository.path / "empty").mkdir()
    assert status(repository.path, tmp_path) == ""
    assert (tmp_path / "job" / "lib" / "x").read_text() == "1"


def test_files_of_git_lfs_and_pointers_are_no_change(repository: GitRepository, tmp_path: Path):
    repository.commit("LFS", **{".gitattributes": "*.bin filter=lfs -text\n"})
    repository.git("config", "filter.lfs.clean", LFS_CLEAN)
    pointer = repository.git("hash-object", "-w", "--stdin", "--path=x.bin", data=b"content")
    repository.git("update-index", "--add", "--cacheinfo", f"100644,{pointer},there.bin")
    repository.git("update-index", "--add", "--cacheinfo", f"100644,{pointer},pointer.bin")
    (repository.path / "there.bin").write_text("content")
    (repository.path / "pointer.bin").write_text(repository.git("cat-file", "blob", pointer) + "\n")
    repository.git("commit", "--quiet", "--message", "Files")
    assert status(repository.path, tmp_path) == ""


def test_tracked_files_that_are_ignored_are_no_change(repository: GitRepository, tmp_path: Path):
    (repository.path / "ignored").write_text("1")
    repository.git("add", "--force", "ignored")
    repository.git("commit", "--quiet", "--message", "Keep")
    assert status(repository.path, tmp_path) == ""
