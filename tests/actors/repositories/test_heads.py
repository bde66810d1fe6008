"""The heads of a repository, read from what git prints."""

from __future__ import annotations

from actors.repositories.fetching.mirror import Heads, default_branch, found_heads, listed_heads

A, B, C = (letter * 40 for letter in "abc")
LONG = f"refs/heads/{'x' * 255}"


def test_heads_are_listed_with_the_commits_of_annotated_tags():
    printed = f"""\
ref: refs/heads/main\tHEAD
{A}\tHEAD
{A}\trefs/heads/main
{B}\trefs/tags/v1
{C}\trefs/tags/v1^{{}}
"""
    assert listed_heads(printed.encode()) == Heads({"refs/heads/main": A, "refs/tags/v1": C}, "main")


def test_unusable_lines_of_a_list_are_left_out():
    printed = f"warning\n{A}\t{LONG}\n{B}\trefs/heads/ok\n".encode() + f"{C}\trefs/heads/".encode() + b"\xff\n"
    assert listed_heads(printed) == Heads({"refs/heads/ok": B}, None)


def test_tags_of_other_objects_are_no_heads():
    printed = f"""\
{A} commit   refs/heads/main
{B} tag {C} commit refs/tags/v1
{B} tag {A} tree refs/tags/tree
{A} blob   refs/tags/blob
{A} commit   {LONG}
"""
    assert found_heads(printed.encode()) == {"refs/heads/main": A, "refs/tags/v1": C}


def test_the_default_branch_is_that_of_head():
    assert default_branch(f"ref: refs/heads/a/b\tHEAD\n{A}\tHEAD\n".encode()) == "a/b"
    assert default_branch(f"{A}\tHEAD\n".encode()) is None


def test_branches_are_found_by_name():
    heads = Heads({"refs/heads/main": A, "refs/tags/next": B}, "main")
    assert heads.branches("main", "next", None) == {"main": A}
