from __future__ import annotations

import io
import os
import socket
import subprocess
import tarfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci_daemon.submit.packing import Archive, PackError, pack

if TYPE_CHECKING:
    from pathlib import Path


def write_tree(tree: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tree


def members(archive: Archive) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(archive.data)) as tar:
        return {member.name: member for member in tar.getmembers()}


def names(tree: Path) -> set[str]:
    return set(members(pack(tree)))


def test_packs_every_file_with_its_bytes(tmp_path: Path):
    archive = pack(write_tree(tmp_path, {"a": "1", "deep/er/b": "22", ".hm/pipeline.py": "3"}))
    with tarfile.open(fileobj=io.BytesIO(archive.data)) as tar:
        found = {member.name: tar.extractfile(member).read() for member in tar.getmembers()}
    assert found == {"a": b"1", "deep/er/b": b"22", ".hm/pipeline.py": b"3"}
    assert archive.files == 3


def test_leaves_out_git_and_ignored_files(tmp_path: Path):
    write_tree(
        tmp_path,
        {
            ".gitignore": "*.log\n/build/\n!keep.log\n",
            ".git/config": "",
            "sub/.git": "gitdir: elsewhere",
            "a.log": "",
            "keep.log": "",
            "build/out": "",
            "src/build/in": "",
            "src/x.log": "",
        },
    )
    assert names(tmp_path) == {".gitignore", "keep.log", "src/build/in"}


def test_a_nested_gitignore_has_the_last_word_in_its_folder(tmp_path: Path):
    write_tree(
        tmp_path,
        {
            ".gitignore": "*.txt\n",
            "docs/.gitignore": "!*.txt\n/secret.txt\n",
            "a.txt": "",
            "docs/b.txt": "",
            "docs/secret.txt": "",
            "docs/deep/secret.txt": "",
        },
    )
    assert names(tmp_path) == {".gitignore", "docs/.gitignore", "docs/b.txt", "docs/deep/secret.txt"}


def test_what_lies_in_an_ignored_folder_cannot_be_named_back_in(tmp_path: Path):
    write_tree(tmp_path, {".gitignore": "out/\n!out/keep\n", "out/keep": "", "out/.gitignore": "!keep\n"})
    assert names(tmp_path) == {".gitignore"}


def test_a_part_of_a_repository_keeps_to_the_rules_above_it(tmp_path: Path):
    write_tree(tmp_path, {".gitignore": "*.pyc\n/part/only-here\n", ".git/HEAD": "", "part/a.pyc": "", "part/a.py": ""})
    write_tree(tmp_path, {"part/only-here": "", "part/b/only-here": ""})
    assert names(tmp_path / "part") == {"a.py", "b/only-here"}


def test_rules_outside_any_repository_do_not_reach_in(tmp_path: Path):
    write_tree(tmp_path, {".gitignore": "*\n", "tree/a": ""})
    assert names(tmp_path / "tree") == {"a"}


RULES = ["*.o", "/top", "sub/", "!sub/", "**/x", "a*", "!a.o", "sub/x", "\\#odd", "# note", "", "[ab].o", "deep/**/y"]
PATHS = ["a.o", "b.o", "top", "x", "sub/x", "sub/a.o", "sub/top", "deep/y", "deep/er/y", "deep/er/x", "#odd"]


@given(outer=st.lists(st.sampled_from(RULES), max_size=5), inner=st.lists(st.sampled_from(RULES), max_size=5))
def test_keeps_files_that_git_would_add(tmp_path_factory: pytest.TempPathFactory, outer: list[str], inner: list[str]):
    tree = write_tree(tmp_path_factory.mktemp("tree"), dict.fromkeys(PATHS, ""))
    write_tree(tree, {".gitignore": "\n".join(outer), "deep/.gitignore": "\n".join(inner)})
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(["git", "init", "-q"], cwd=tree, env=environ, check=True)
    ask = ["git", "ls-files", "-co", "-z", "--exclude-standard"]
    listed = subprocess.run(ask, cwd=tree, env=environ, check=True, capture_output=True).stdout.decode()
    assert names(tree) == set(listed.split("\0")) - {""}


def test_the_same_tree_gives_the_same_bytes(tmp_path: Path):
    first = write_tree(tmp_path / "first", {"b": "1", "a": "2"})
    second = write_tree(tmp_path / "second", {"a": "2", "b": "1"})
    os.utime(second / "a", (1, 1))
    (second / "b").chmod(0o600)
    assert pack(first) == pack(second)
    assert pack(first).sha256 == pack(second).sha256
    assert len(pack(first).sha256) == 64


def test_owners_times_and_modes_are_levelled(tmp_path: Path):
    write_tree(tmp_path, {"plain": "", "run.sh": ""})
    (tmp_path / "run.sh").chmod(0o700)
    (tmp_path / "plain").chmod(0o660)
    found = members(pack(tmp_path))
    assert (found["run.sh"].mode, found["plain"].mode) == (0o755, 0o644)
    assert {(m.uid, m.gid, m.uname, m.mtime) for m in found.values()} == {(0, 0, "", 0)}


def test_links_stay_links_inside_the_tree(tmp_path: Path):
    write_tree(tmp_path, {"a/file": "1"})
    (tmp_path / "a" / "up").symlink_to("../a/file")
    (tmp_path / "dangling").symlink_to("nothing")
    found = members(pack(tmp_path))
    assert found["a/up"].linkname == "../a/file"
    assert found["dangling"].issym()


@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "a/../../outside"])
def test_a_link_out_of_the_tree_is_refused_by_name(tmp_path: Path, target: str):
    (tmp_path / "escape").symlink_to(target)
    with pytest.raises(PackError, match=f"escape is a link to {target}, outside the tree"):
        pack(tmp_path)


def test_sockets_and_pipes_are_left_out(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(tmp_path / "sock"))
        assert pack(write_tree(tmp_path, {"a": ""})).files == 1


def test_names_of_any_length_and_bytes_survive(tmp_path: Path):
    long = "/".join(["d" * 90] * 4) + "/" + "é" * 100
    write_tree(tmp_path, {long: "1", os.fsdecode(b"\xff.bin"): "2"})
    assert names(tmp_path) == {long, os.fsdecode(b"\xff.bin")}


def test_a_missing_folder_is_reported(tmp_path: Path):
    with pytest.raises(PackError, match="nowhere cannot be packed: No such file"):
        pack(tmp_path / "nowhere")


def test_a_tree_too_large_for_any_service_is_refused_early(tmp_path: Path):
    """The refusal comes before the archive fills the memory."""
    (tmp_path / "large").write_bytes(os.urandom(3 * 2**20))
    with pytest.raises(PackError, match="more than 1 MiB would be packed: exclude files that no step needs"):
        pack(tmp_path, max_bytes=2**20)
