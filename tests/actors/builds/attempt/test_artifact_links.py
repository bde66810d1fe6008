"""Links among artifacts, compared with what a walk through them finds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.builds.attempt import artifact_links
from actors.builds.attempt.artifact_links import Links, Reached, TooManyLinks
from actors.ir.triggers import Globs


def reached(links: dict[str, str], *globs: str) -> Reached:
    found = Links()
    for path, target in links.items():
        found.add(path, target)
    return found.reached(Globs(globs))


def names(found: Reached) -> dict[str, str]:
    return {each.name: each.path for each in found.paths if not each.covered}


def test_a_link_in_a_linked_folder_is_reached_by_both():
    links = {"a/l": "../b", "b/m": "../c", "top": "a"}
    assert names(reached(links, "top/l/m/x")) == {"top": "a", "top/l": "b", "top/l/m": "c"}


def test_links_that_no_glob_can_reach_are_not_followed():
    assert reached({"a/l": "../b", "c": "/etc"}, "d/*", "b/x") == Reached()


def test_stars_that_pass_a_link_by_say_nothing_of_it():
    assert reached({"venv/bin/python": "/usr/bin/python3", "x": "x"}, "**/*.xml") == Reached()
    assert reached({"report.xml": "/tmp/report.xml"}, "**/*.xml").outside == ["report.xml"]


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("../b", "b"),
        ("./../b/.//c/", "b/c"),
        ("/workspace/b", "b"),
        ("../../workspace/b", None),
        ("/workspaces/b", None),
        ("/workspace/../b", None),
        ("../l/up/b", "b"),
    ],
)
def test_a_target_is_a_path_of_the_workspace_or_outside(target: str, path: str | None):
    found = reached({"a/x": target, "l": "d", "d/up": ".."}, "a/x")
    assert (names(found), found.outside) == (({"a/x": path}, []) if path else ({}, ["a/x"]))


def test_more_links_than_are_followed_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(artifact_links, "_MOST_CHARACTERS", 10)
    with pytest.raises(TooManyLinks):
        reached({"a": "b", "c" * 5: "d" * 5}, "x")


def test_a_chain_has_as_many_links_as_linux_follows():
    """One more counts as a circle."""
    chain = {f"l{number}": f"l{number + 1}" for number in range(1, 41)} | {"l41": "file"}
    found = reached(chain, "l1", "l2")
    assert (names(found), found.circles) == ({"l2": "file"}, ["l1"])


def test_more_steps_than_are_taken_are_refused(monkeypatch: pytest.MonkeyPatch):
    links = {"top": "a"} | {f"a/{number}": "../b" for number in range(5)}
    monkeypatch.setattr(artifact_links, "_MOST_STEPS", 11)
    assert len(reached(links, "top").paths) == 6
    monkeypatch.setattr(artifact_links, "_MOST_STEPS", 10)
    with pytest.raises(TooManyLinks):
        reached(links, "top")


def test_the_work_does_not_grow_with_the_paths_that_links_make():
    """A chain of folders, each with two links to the next, has two to the power of 2,000 paths."""
    links = {f"{number}/{name}": f"../{number + 1}" for number in range(2000) for name in "ab"}
    found = reached(links, "0")
    assert len(found.paths) == 2 * 2000
    assert len(names(found)) == 2000


FOLDERS = ["a", "b", "a/c"]
TARGETS = ["a", "b", "..", "../b", "../../b", ".", "c", "f", "../f", "gone", "/workspace/a/c", "/etc", "../../.."]


@given(
    links=st.dictionaries(
        st.sampled_from([f"{folder}/{name}" for folder in FOLDERS for name in "lm"] + ["l"]),
        st.sampled_from(TARGETS),
        max_size=5,
    ),
    glob=st.sampled_from(["a", "l", "a/*", "*/l/f", "**/f", "a/l/**", "b/l/m/f", "l/**/f"]),
)
@settings(max_examples=200, deadline=None)
def test_each_name_is_of_the_file_that_linux_finds(
    tmp_path_factory: pytest.TempPathFactory, links: dict[str, str], glob: str
):
    workspace = tmp_path_factory.mktemp("root") / "workspace"
    for folder in FOLDERS:
        (workspace / folder).mkdir(parents=True)
    for path, target in links.items():
        inside = target.startswith("/workspace")
        (workspace / path).symlink_to(f"{workspace}{target.removeprefix('/workspace')}" if inside else target)
    for each in reached(links, glob).paths:
        real = os.path.realpath(workspace / each.name)
        assert Path(real) == workspace / each.path
