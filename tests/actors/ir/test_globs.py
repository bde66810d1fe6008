from __future__ import annotations

import random
import time
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.ir.triggers import Globs


@pytest.mark.parametrize(
    ("glob", "paths", "others"),
    [
        ("a.txt", ["a.txt"], ["b.txt", "d/a.txt", "a.txtx", "xa.txt"]),
        ("*.txt", ["a.txt", ".txt", ".hidden.txt"], ["a.txt.gz", "d/a.txt"]),
        ("a?c", ["abc", "a.c", "aüc"], ["ac", "abbc", "a/c"]),
        ("[a-c]x", ["ax", "bx"], ["dx", "x", "-x"]),
        ("[!a]x", ["bx"], ["ax", "x"]),
        ("[", ["["], ["", "a"]),
        ("dist", ["dist", "dist/a", "dist/b/c"], ["distance", "d/dist", "dis"]),
        ("dist/", ["dist/a"], ["distance"]),
        ("./dist//x", ["dist/x", "dist/x/y"], ["x", "dist/y"]),
        (".", ["a", "a/b"], []),
        ("dist/*", ["dist/a", "dist/b/c"], ["dist", "a/dist/b"]),
        ("dist/**", ["dist/a", "dist/b/c"], ["dist", "a/dist/b"]),
        ("**", ["a", "a/b", ".a"], []),
        ("**/*.xml", ["a.xml", "b/a.xml", "c/b/a.xml", "d.xml/anything"], ["a.xmlx", "b/a.html"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b", "a/b/below"], ["ab", "b", "a/xb", "x/a/b"]),
        ("a/**/**/b", ["a/b", "a/x/b"], ["b", "a"]),
        ("a**b", ["ab", "axxb"], ["a/b"]),
        ("**/a/**/b/*", ["a/b/c", "x/a/y/b/z", "a/b/a/b/c"], ["a/b", "b/a/c"]),
        ("a\nb*", ["a\nb", "a\nbc\n"], ["a", "b"]),
    ],
)
def test_what_a_glob_matches(glob: str, paths: list[str], others: list[str]):
    globs = Globs([glob])
    assert [path for path in paths if not globs.match(path)] == []
    assert [path for path in others if globs.match(path)] == []


def test_a_path_is_matched_by_any_of_several_and_by_none_of_none():
    assert Globs(["x", "a/*"]).match("a/b")
    assert not Globs([]).match("a")


segments = st.text("ab*?[]!-.", min_size=1, max_size=6).filter(lambda text: text not in {".", "..", "**"})
names = st.text("ab!-.[]\n", min_size=1, max_size=6)


@given(segments, names)
def test_in_a_segment_it_is_what_shells_do(pattern: str, name: str):
    assert Globs([pattern]).match(name) == fnmatchcase(name, pattern)


def by_hand(pattern: list[str], path: list[str]) -> bool:
    """Match a pattern by its definition: a slow reference."""
    if not pattern:
        return True
    if pattern[0] == "**":
        return by_hand(pattern[1:], path) or (bool(path) and by_hand(pattern, path[1:]))
    return bool(path) and fnmatchcase(path[0], pattern[0]) and by_hand(pattern[1:], path[1:])


@given(
    st.lists(st.sampled_from(["a", "b", "*", "a*", "**"]), min_size=1, max_size=6),
    st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=6),
)
def test_across_segments_it_means_what_is_written(pattern: list[str], path: list[str]):
    meant = [*pattern[:-1], "*"] if pattern[-1] == "**" else pattern
    assert Globs(["/".join(pattern)]).match("/".join(path)) == by_hand(meant, path)


@given(st.text(min_size=1, max_size=30), st.text(min_size=1, max_size=30))
def test_whatever_is_written_is_a_pattern(pattern: str, path: str):
    Globs([pattern]).match(path)


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("*a" * 100 + "b", "a" * 4000),
        ("**/" * 80 + "b", "a/" * 2000 + "a"),
        ("**/*a*a*a*a*b/" * 15, "/".join(["a" * 250] * 15)),
    ],
)
def test_no_pattern_takes_long(glob: str, path: str):
    def seconds(times: int) -> float:
        begin = time.process_time()
        for _ in range(times):
            assert not globs.match(path)
        return time.process_time() - begin

    globs = Globs([glob])
    assert seconds(1) < 30  # backtracking takes years


def test_many_globs_for_any_folders_are_one():
    begin = time.process_time()
    assert not Globs(["**/" * 1000 + "b"]).match("a/" * 2000 + "a")
    assert Globs(["**/" * 1000 + "b"]).match("a/" * 2000 + "b")
    assert time.process_time() - begin < 5


def test_many_paths_are_a_matter_of_moments():
    chosen = random.Random(1)
    paths = ["/".join(chosen.choices(["src", "node_modules", "a", "b"], k=5)) for _ in range(20_000)]
    globs = Globs(["**/*.xml", "dist/**", "build/*/out"])
    begin = time.process_time()
    assert not any(globs.match(path) for path in paths)
    assert time.process_time() - begin < 60  # with coverage on
