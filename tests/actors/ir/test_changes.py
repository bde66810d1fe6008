"""Changed files, and the pipelines that they concern."""

from __future__ import annotations

import pytest

from actors.ir import IrError, IrSettings, concerns, load
from tests.e2e.pipelines import Graph


def concerned(changed: list[str] | None, *globs: list[str] | None) -> bool:
    """Tell whether changed files concern a pipeline with a step for each list of globs."""
    graph = Graph()
    for number, each in enumerate(globs):
        graph.step(f"step {number}", "true", runner_args={} if each is None else {"paths": each})
    return concerns(load(graph.ir(), IrSettings()), changed)


@pytest.mark.parametrize(
    ("changed", "globs", "expected"),
    [
        (["README.md"], ["src"], False),
        (["src/a/b.py"], ["src"], True),
        (["src/a/b.py"], ["*.py"], False),
        (["src/a/b.py"], ["**/*.py"], True),
        (["a", "src/x", "b"], ["src/**"], True),
        (["docs/a.md"], ["!docs"], False),
        (["docs/a.md", "src/x"], ["!docs"], True),
        (["docs/api.json"], ["docs/**", "!**/*.md"], True),
        (["docs/api.md"], ["docs/**", "!**/*.md"], False),
        ([], ["**"], False),
        (["src/x"], [], False),
    ],
)
def test_globs_choose_among_changed_files(changed: list[str], globs: list[str], expected: bool):
    assert concerned(changed, globs) is expected


def test_one_step_with_a_match_is_enough():
    assert concerned(["docs/a"], ["src"], None, ["docs"])
    assert not concerned(["docs/a"], ["src"], None, ["!docs"])


def test_any_change_concerns_a_pipeline_without_globs():
    assert concerned([], None)
    assert concerned(["anything"], None, None)


def test_unknown_changes_concern_every_pipeline():
    assert concerned(None, ["src"])
    assert concerned(None, [])


def test_very_many_globs_and_files_concern_a_pipeline():
    globs, changed = (
        ["s/" * 120 + f"{number}" for number in range(100)],
        [f"docs/{number}" for number in range(10_000)],
    )
    assert not concerned(changed[:1], globs)
    assert concerned(changed, globs)


@pytest.mark.parametrize("glob", ["?" * 200, f"*{'a' * 100}b", "a/" * 100], ids=["one by one", "anywhere", "folders"])
def test_globs_that_take_long_concern_a_pipeline(glob: str):
    changed = ["a" * 250 + f"/{number}" for number in range(1000)]
    assert not concerned(changed, [glob])
    assert concerned(changed, *[[f"{glob}{number}" for number in range(100)]] * 20)


@pytest.mark.parametrize("paths", ["src", [""], ["/etc/passwd"], ["../up"], [1], ["x"] * 101])
def test_globs_that_cannot_be_are_an_error(paths: object):
    with pytest.raises(IrError, match="paths"):
        load(Graph().step("a", "true", runner_args={"paths": paths}).ir(), IrSettings())
