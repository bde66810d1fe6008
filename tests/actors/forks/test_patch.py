from __future__ import annotations

import difflib
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.forks.patch import PatchedFile, PatchRefused, apply_patch, needed_files, parse_patch

OLD = "one\ntwo\nthree\nfour\nfive\n"
CHANGE = "--- a/x\n+++ b/x\n@@ -2,2 +2,2 @@\n two\n-three\n+3\n"


def patched(patch: str, **files: str) -> dict[str, str | None]:
    found = {name: PatchedFile(text.encode(), executable=False) for name, text in files.items()}
    changed = apply_patch(parse_patch(patch), found)
    return {path: None if each is None else each.content.decode() for path, each in changed.items()}


def test_a_hunk_changes_its_lines_alone():
    assert patched(CHANGE, x=OLD) == {"x": "one\ntwo\n3\nfour\nfive\n"}
    assert patched(CHANGE.replace("a/x", "x").replace("b/x", "x"), x=OLD) == patched(CHANGE, x=OLD)


def test_a_hunk_that_moved_is_found_nearby():
    assert patched(CHANGE, x="zero\n" * 50 + OLD) == {"x": "zero\n" * 50 + "one\ntwo\n3\nfour\nfive\n"}


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        (CHANGE.replace("three", "3"), "the hunk at line 2 does not fit"),
        (CHANGE.replace("/x", "/y"), "y: there is no such file"),
        ("just words", "has no changes"),
        ("--- a/x\n@@ -1 +1 @@\n", "line 2 of the patch: expected a line that begins with"),
        ("--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n one\n", "ends in the middle of a hunk"),
        ("--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n one\nwords\n", "expected a line of a hunk"),
        ("--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-one\n+1\n", "a path in the workspace"),
        ("--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-one\n+1\n", "a path in the workspace"),
        ("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-one\n+1\n", "the name of a file"),
        ("diff --git a/x b/x\nBinary files a/x and b/x differ\n", "binary files cannot"),
        ("diff --git a/x b/y\nrename from x\n", "both names"),
        ("".join(CHANGE.replace("/x", f"/{each}") for each in range(501)), "more than 500 files"),
    ],
)
def test_what_does_not_fit_is_refused_and_said(patch: str, why: str):
    with pytest.raises(PatchRefused, match=why):
        patched(patch, x=OLD)


def test_files_are_made_removed_and_renamed():
    patch = (
        "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+hello\n"
        "--- a/x\n+++ /dev/null\n@@ -1,5 +0,0 @@\n-one\n-two\n-three\n-four\n-five\n"
        "diff --git a/y b/z\nsimilarity index 100%\nrename from y\nrename to z\n"
    )
    assert needed_files(parse_patch(patch)) == ("x", "y")
    assert patched(patch, x=OLD, y="kept\n") == {"new": "hello\n", "x": None, "y": None, "z": "kept\n"}


def test_a_mode_is_kept_or_changed():
    found = {"x": PatchedFile(OLD.encode(), executable=True)}
    assert apply_patch(parse_patch(CHANGE), found)["x"] == PatchedFile(b"one\ntwo\n3\nfour\nfive\n", executable=True)
    new = "diff --git a/s b/s\nnew file mode 100755\n--- /dev/null\n+++ b/s\n@@ -0,0 +1 @@\n+#!/bin/sh\n"
    assert apply_patch(parse_patch(new), {})["s"] == PatchedFile(b"#!/bin/sh\n", executable=True)


LINES = st.lists(st.sampled_from(["a", "b", "c", "", "é"]), max_size=12)


@given(before=LINES, after=LINES, ends=st.tuples(st.booleans(), st.booleans()))
@settings(max_examples=150)
def test_the_diff_of_two_texts_turns_one_into_the_other(before: list[str], after: list[str], ends: tuple[bool, bool]):
    old, new = ("\n".join(lines) + ("\n" if end else "") for lines, end in zip((before, after), ends, strict=True))
    old_lines, new_lines = old.splitlines(keepends=True), new.splitlines(keepends=True)
    marked = "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in difflib.unified_diff(old_lines, new_lines, "a/x", "b/x")
    )
    if marked:
        assert patched(marked, x=old) == {"x": new}


def test_what_git_writes_is_applied(tmp_path: Path):
    def git(*arguments: str) -> str:
        command = ("git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments)
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    git("init", "-q")
    (tmp_path / "x").write_text(OLD)
    (tmp_path / "old name").write_text("same\n" * 5)
    git("add", ".")
    git("commit", "-qm", "first")
    (tmp_path / "x").write_text("zero\n" + OLD + "six")
    git("mv", "old name", "new name")
    assert patched(git("diff", "-M", "HEAD"), x=OLD, **{"old name": "same\n" * 5}) == {
        "old name": None,
        "new name": "same\n" * 5,
        "x": "zero\n" + OLD + "six",
    }


def test_the_worst_patch_takes_time_in_its_size():
    """Each hunk fits nowhere but in its last line, at each place where it is looked for."""
    lines = 20_000
    hunk = f"@@ -1,{lines} +1,{lines} @@\n" + " x\n" * (lines - 1) + "-y\n+z\n"
    began = time.process_time()
    with pytest.raises(PatchRefused):
        patched(f"--- a/x\n+++ b/x\n{hunk}", x="x\n" * (lines + 300))
    assert time.process_time() - began < 2
