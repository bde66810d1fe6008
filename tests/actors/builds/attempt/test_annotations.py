"""Annotations: what jobs say of lines in files, by ``$CI_ANNOTATIONS``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from actors.builds.attempt import runner
from actors.builds.attempt.told import (
    MAX_ANNOTATION_BYTES,
    MOST_ANNOTATIONS,
    WrittenAnnotations,
    bounded,
    written_annotations,
)
from actors.ir import PipelineFile
from storage import Annotation, AnnotationLevel, Build, Masker
from storage.files import Bounds
from tests.actors.conftest import Host
from tests.e2e.sources import archive

ERROR, WARNING, NOTICE = AnnotationLevel
SECRET = "a-secret-value"


def written(*lines: str, size: int | None = None) -> WrittenAnnotations:
    content = "\n".join(lines).encode()
    return written_annotations(content, len(content) if size is None else size, Masker.hiding([SECRET]))


@pytest.mark.parametrize(
    ("line", "annotation"),
    [
        ("error a.py:3 is wrong", Annotation(ERROR, "is wrong", "a.py", 3)),
        ("warning ./src/a.py:3:7: is odd\r", Annotation(WARNING, "is odd", "src/a.py", 3, 7)),
        ("notice /workspace/src/a:b.py:3 x", Annotation(NOTICE, "x", "src/a:b.py", 3)),
        ("notice ../a.py:3", Annotation(NOTICE, "", "../a.py", 3)),
        ("error a.py:0:9 x", Annotation(ERROR, "x", "a.py")),
        ('{"level": "error", "message": "m"}', Annotation(ERROR, "m")),
        (
            '{"level": "notice", "message": "a\\nb", "path": "a b.py", "line": 2, "column": 1, "title": "T"}',
            Annotation(NOTICE, "a\nb", "a b.py", 2, 1, "T"),
        ),
        ('{"level": "notice", "message": "m", "path": "", "line": 2}', Annotation(NOTICE, "m")),
        ('{"level": "notice", "message": "m", "line": -2, "other": []}', Annotation(NOTICE, "m")),
        (f"error {SECRET}/a.py:3 is {SECRET}\x1b[1m", Annotation(ERROR, "is ***[1m", "***/a.py", 3)),
        (
            json.dumps({"level": "error", "message": SECRET, "title": SECRET}).replace("secret", "s\\u0065cret"),
            Annotation(ERROR, "***", title="***"),
        ),
        (f"error a.py:1 {'x' * 3_000}", Annotation(ERROR, "x" * 2_000, "a.py", 1)),
    ],
)
def test_a_line_is_an_annotation(line: str, annotation: Annotation):
    assert written(line) == WrittenAnnotations((annotation,), None)


@pytest.mark.parametrize(
    "line",
    [
        "error a.py is wrong",
        "fatal a.py:3 x",
        "error a.py:3x",
        "{",
        "[" * 100_000,
        "{" + '"a":{' * 100_000,
        '{"level": "error"}',
        '{"level": "fatal", "message": "m"}',
        '{"level": ["error"], "message": "m"}',
        '{"level": "error", "message": "m", "line": "3"}',
        '{"level": "error", "message": "m", "line": true}',
        '{"level": "error", "message": "m", "line": ' + "1" * 5_000 + "}",
    ],
)
def test_another_line_is_named(line: str):
    good = Annotation(ERROR, "x", "a.py", 1)
    assert written("error a.py:1 x", "", line) == WrittenAnnotations(
        (good,), "$CI_ANNOTATIONS: line 3 is no annotation"
    )


def test_what_is_too_much_is_left_out_and_counted():
    found = written("error a.py:1 x", "what", f"error a.py:2 {SECRET[:5]}", size=1 << 20)
    assert found.annotations == (Annotation(ERROR, "x", "a.py", 1),)
    assert found.fault == "$CI_ANNOTATIONS: line 2 is no annotation; of 1,048,576 bytes the first 38 are read"
    many = tuple(Annotation(ERROR, str(number)) for number in range(MOST_ANNOTATIONS + 1))
    assert bounded(many[1:]) == many[1:]
    last = Annotation(NOTICE, "2 more annotations of this job are not kept")
    assert bounded(many) == (*many[: MOST_ANNOTATIONS - 1], last)


def built(host: Host, **jobs: dict[str, Any]) -> Build:
    return host.finish(host.build(json.dumps({"version": "1", "jobs": jobs})))


def shown(host: Host, build: Build) -> list[tuple[str, Annotation]]:
    return [(row.job_name, row.annotation) for row in host.storage.told.annotations(build.id, 1_000).rows]


@pytest.mark.sandbox
def test_the_annotations_of_a_job_are_kept_passed_or_failed(host: Host):
    build = built(
        host,
        one={"run": "echo error a.py:1 x >>$CI_ANNOTATIONS; echo no >>$CI_ANNOTATIONS"},
        two={"from": "one", "run": "cat $CI_ANNOTATIONS; echo notice b.py:2 y >>$CI_ANNOTATIONS; exit 1"},
    )
    assert shown(host, build) == [
        ("one", Annotation(ERROR, "x", "a.py", 1)),
        ("two", Annotation(NOTICE, "y", "b.py", 2)),
    ]
    assert host.storage.told.annotation_counts(build.id) == {"error": 1, "notice": 1}
    assert host.log(build, "one") == b"$CI_ANNOTATIONS: line 2 is no annotation\n"


@pytest.mark.sandbox
def test_the_beginning_of_many_annotations_is_kept(host: Host):
    build = built(host, only={"run": f"yes 'error a:1 x' | head -c {MAX_ANNOTATION_BYTES + 1} >$CI_ANNOTATIONS"})
    assert host.log(build) == b"$CI_ANNOTATIONS: of 262,145 bytes the first 262,144 are read\n"
    assert len(shown(host, build)) == MOST_ANNOTATIONS


@pytest.mark.sandbox
def test_a_second_attempt_begins_without_annotations(host: Host):
    run = "test $CI_ATTEMPT = 2 && exit; echo error a:1 x >$CI_ANNOTATIONS; exit 1"
    assert shown(host, built(host, only={"run": run, "retry": {"limit": 1}})) == []


@pytest.mark.sandbox
def test_the_lines_of_compilers_are_annotations(host: Host):
    build = built(
        host,
        only={
            "run": "echo compiling; echo src/a.c:3:7: error: bad; echo 'x.py:1:1: F401 no'; exit 1",
            "problems": ["gcc", "ruff"],
            "retry": {"limit": 1},
        },
        unasked={"run": "echo src/a.c:3:7: error: bad; echo notice a:1 x >$CI_ANNOTATIONS"},
    )
    assert sorted(shown(host, build), key=lambda each: each[0]) == [
        ("only", Annotation(ERROR, "bad", "src/a.c", 3, 7, matcher="gcc", log_line=6)),
        ("only", Annotation(ERROR, "no", "x.py", 1, 1, "F401", "ruff", 7)),
        ("unasked", Annotation(NOTICE, "x", "a", 1)),
    ]


@pytest.mark.sandbox
def test_a_log_that_takes_too_much_is_searched_no_more(host: Host, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(runner, "_OF_PROBLEMS", Bounds(cpu_seconds=1, memory_bytes=1 << 20, seconds=5))
    build = built(host, only={"run": "yes 'a.c:3: error: bad' | head -c 4M", "problems": "gcc"})
    assert (build.state, shown(host, build)) == ("passed", [])
    assert b"the log is not searched for problems: it took more than 1 MiB of memory" in host.log(build)


PAGE = Path(__file__).parents[4] / "docs" / "language.md"
SOURCE = {"version.txt": "1.2\n"}
FOLDER = {"src/a.py": "x = 1  # TODO: more\n"}


@pytest.mark.sandbox
@pytest.mark.parametrize("heading", ["Outputs", "Summaries", "Annotations"])
def test_the_examples_of_the_page_work(host: Host, heading: str):
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2]
    text = section.partition("```yaml\n")[2].partition("```")[0]
    definition = PipelineFile.parse(".hm/ci.yml", text).declared({}, 0)["definition"]
    build = host.finish(
        host.build(
            json.dumps(definition), source_archive=archive(SOURCE if heading == "Summaries" else SOURCE | FOLDER)
        )
    )
    assert build.state == "passed"
    kept = {each.path for each in host.storage.artifacts.page_of_build(build.id, 9, None).rows}
    summaries = [each.text for each in host.storage.told.summaries(build.id, 9).rows]
    assert (kept, summaries, shown(host, build)) == {
        "Outputs": ({"app-1.2.tar.gz"}, [], []),
        "Summaries": (set(), ["## Sizes\n\n| File | Bytes |\n|---|---|\n| version.txt | 4 |\n"], []),
        "Annotations": (set(), [], [("words", Annotation(NOTICE, "x = 1  # TODO: more", "src/a.py", 1))]),
    }[heading]


def test_problems_beyond_the_bound_are_counted():
    assert bounded((Annotation(ERROR, "x"),) * MOST_ANNOTATIONS, 100)[-1].message.startswith("101 more annotations")
