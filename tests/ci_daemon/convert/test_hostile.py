"""Files of strangers that take long or much, or lead out of the repository, are refused in words."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest

from actors.ir.systems import NotReadable
from ci_daemon.convert import Project, converted
from ci_daemon.draft import PipelineExists
from ci_daemon.draft import place as place_pipeline
from tests.rendering import planned_yaml

JOB = "a: {image: b, script: x}\n"
ON = "on: push\njobs:\n"


def refusal(tree: Path) -> str:
    with pytest.raises(NotReadable) as caught:
        converted(Project.at(tree))
    return str(caught.value)


def place(tree: Path, text: str | bytes, name: str = ".gitlab-ci.yml") -> Path:
    file = tree / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return tree


BOMB = "".join(f".{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in pairwise("abcdefgh"))
DOUBLED = "".join(f".{b}: {{extends: [{','.join(['.' + a] * 9)}]}}\n" for a, b in pairwise("abcdefghij"))
MANY = "".join(f"    k{number}: v\n" for number in range(3_000))
REFUSED = {
    "open": ("a: [", "line 1"),
    "bomb": (f".a: &a [x,x,x,x,x,x,x,x,x]\n{BOMB}{JOB}", "aliases expand to too much"),
    "endless": ("a: &a {script: *a}", "found undefined alias|too much|recursive"),
    "deep": ("a: " + "[" * 5_000, "nested too deeply"),
    "large": ("#" * 600_000, "more than 512 KiB"),
    "not UTF-8": (b"a: \xff\xfe", "not UTF-8"),
    "objects": ("a: !!python/object/apply:os.system [ls]\n b", "line"),
    "half of a character": ('a: {image: b, script: ["\\ud800"]}', "half of a character"),
    "half of a character in a key": ('"\\udfff": {image: b, script: x}', "half of a character"),
    "several documents": ("a: b\n---\nc: d\n", "another document"),
    "merge of a text": ("a: {<<: x}", "takes mappings alone"),
    "a mapping as a key": ("{a: b}: c", "no plain text"),
    "a key twice": ("a: {script: x, script: y}", "stands twice"),
    "many jobs": ("".join(f"j{number}: {{script: x}}\n" for number in range(1_001)), "more than 1000 jobs"),
    "many copies": (
        "".join(f"j{n}: {{image: a, script: x, parallel: 200}}\n" for n in range(6)),
        "more than 1000 copies",
    ),
    "large template": (
        ".t:\n  variables:\n" + MANY + "".join(f"j{n}: {{image: a, script: x, extends: .t}}\n" for n in range(900)),
        "expand to too much",
    ),
    "large pipeline": (
        ".t:\n  image: a\n  script: x\n  variables:\n    A: " + "x" * 60_000 + "\nj: {extends: .t, parallel: 200}\n",
        "would be refused",
    ),
    "large command": (f"a: {{image: b, script: [{'x' * 300_000}]}}", "would be refused"),
    "large step": (
        ON + f"  a: {{runs-on: docker, container: b, steps: [{{run: {'x' * 300_000}}}]}}",
        "would be refused",
    ),
}


@pytest.mark.parametrize(("text", "why"), REFUSED.values(), ids=REFUSED)
@pytest.mark.timeout(60)
def test_a_file_that_could_harm_is_refused(text: str | bytes, why: str, tmp_path: Path):
    assert any(each in refusal(place(tmp_path, text)) for each in why.split("|"))


QUICK = {
    "expressions without end": ON + "  a: {runs-on: docker, container: b, steps: [{run: '" + "${{ " * 50_000 + "'}]}\n",
    "references without end": "variables: {A: '" + "$A" * 100_000 + "'}\n" + JOB,
    "references in references": "variables: {a: x, "
    + ", ".join(f"{b}: {('$' + a) * 9}" for a, b in pairwise("abcdefghijkl"))
    + "}\n"
    + JOB.replace("a:", "job:"),
    "extends that double": ".a: {image: b, script: x}\n" + DOUBLED + "j: {extends: .j}\n",
    "a matrix of all": ON + "  a: {runs-on: docker, container: b, strategy: {matrix: {"
    + ", ".join(f"{name}: [{','.join(['x'] * 40)}]" for name in "abcdefghij") + "}}, steps: [{run: x}]}\n",
    "a matrix of GitLab": "a: {script: x, image: b, parallel: {matrix: [{"
    + ", ".join(f"{name}: [{','.join(['x'] * 40)}]" for name in "abcdefghij") + "}]}}\n",
    "a chain of needs": "".join(f"j{n}: {{image: a, script: x, needs: [j{n + 1}]}}\n" for n in range(999)) + JOB,
    "a chain of stages": f"stages: [{','.join(f's{n}' for n in range(500))}]\n"
    + "".join(f"j{n}: {{image: a, script: x, stage: s{n}, artifacts: {{paths: [y]}}}}\n" for n in range(500)),
    "a circle": "".join(f"j{n}: {{image: a, script: x, needs: [j{(n + 1) % 900}]}}\n" for n in range(900)) + JOB,
    "variables that nothing sets": "a: {image: b, script: ['" + " ".join(f"$v{n}" for n in range(40_000)) + "']}\n",
    "quotes without end": "a: {image: b, script: [\"" + "'" * 200_001 + "\"]}\n",
    "equal signs": "a: {image: b, script: ['" + "export -a " * 40_000 + "']}\n",
}  # fmt: skip


@pytest.mark.parametrize("text", QUICK.values(), ids=QUICK)
@pytest.mark.timeout(60)
def test_a_file_ends_in_bounded_time(text: str, tmp_path: Path):
    try:
        found = converted(Project.at(place(tmp_path, text)))
    except NotReadable:
        return
    assert found.texts or found.omissions


@pytest.mark.parametrize(
    ("include", "why"),
    [
        ("../secret.yml", "leads out of the repository"),
        ("ci/../../secret.yml", "leads out of the repository"),
        ("linked.yml", "leads out of the repository"),
        ("linked/*.yml", "leads out of the repository"),
        ("nowhere.yml", "no such file"),
        ("loop.yml", "no such file"),
        ("pipe.yml", "no regular file"),
        ("folder", "Is a directory"),
        ("self.yml", "includes itself"),
        ("ci/**/**/*.yml", "too many stars"),
        ("none/*.yml", "no file matches"),
        ("travis.yml", "Travis CI"),
    ],
)
def test_an_include_that_leads_elsewhere_is_refused(include: str, why: str, tmp_path: Path):
    tree = place(tmp_path / "tree", f"include: {include}\n{JOB}")
    place(tmp_path, JOB, "secret.yml")
    place(tree, "include: self.yml\n", "self.yml")
    (tree / "folder").mkdir()
    (tree / "ci").mkdir()
    (tree / "linked.yml").symlink_to(tmp_path / "secret.yml")
    (tree / "linked").symlink_to(tmp_path)
    (tree / "loop.yml").symlink_to("loop.yml")
    os.mkfifo(tree / "pipe.yml")
    if include == "travis.yml":
        place(tree, "language: c\nscript: make\n", "travis.yml")
    assert any(each in refusal(tree) for each in why.split("|"))


def test_a_file_that_is_a_link_to_elsewhere_is_refused(tmp_path: Path):
    place(tmp_path, JOB, "secret.yml")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / ".gitlab-ci.yml").symlink_to(tmp_path / "secret.yml")
    assert "leads out of" in refusal(tmp_path / "tree")


def test_includes_by_pattern_are_read_in_order(tmp_path: Path):
    place(tmp_path, "include: [{local: 'ci/*.yml'}]\n" + JOB)
    place(tmp_path, "default: {image: first}\nb: {script: x}\n", "ci/1.yml")
    place(tmp_path, "default: {image: second}\n", "ci/2.yml")
    found = converted(Project.at(tmp_path))
    (plan,) = planned_yaml(found.texts).values()
    assert [(job.name, job.image) for job in plan.jobs] == [("b", "second"), ("a", "b")]
    assert found.omissions == ()


def test_a_note_names_the_included_file(tmp_path: Path):
    place(tmp_path, "include: ci.yml\n" + JOB)
    place(tmp_path, "\nb: {image: c, script: x, coverage: x}\n", "ci.yml")
    (omission,) = converted(Project.at(tmp_path)).omissions
    assert (omission.file, omission.line, omission.key) == ("ci.yml", 2, "b.coverage")


def test_a_pipeline_is_not_written_through_a_link(tmp_path: Path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / ".hm").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PipelineExists, match="is a link"):
        place_pipeline(tmp_path / "tree", {"ci.yml": ""})
    assert list((tmp_path / "elsewhere").iterdir()) == []
