"""The jobs of a file that a job generates: how they are read and planned beside those of their build."""

from __future__ import annotations

import json
from dataclasses import asdict
from textwrap import dedent
from typing import Any

import pytest

from actors.ir import Built, FileInvalid, IrSettings
from actors.ir.language.beside import Beside, KnownJob
from actors.ir.language.generating import declared_inputs, plan_generated, read_generated
from storage import Dependency, EdgeKind, NewJob, Shape

BESIDE = Beside(
    (
        KnownJob("install", "install", "python:3.12", has_disk=True),
        KnownJob("test-1", "test", keeps_files=True),
        KnownJob("test-2", "test", keeps_files=True),
        KnownJob("docs", "docs", skipped=True, awaits=(Dependency(0),)),
        KnownJob("maker", "maker", "debian:12", has_disk=True),
    ),
    maker=4,
)
INPUTS = {"target": {"choice": ["a", "b"], "default": "a"}}
BUILT = Built(branch="main", number="7", inputs={"target": "b"})


def read(text: str, name: str = "more.yml", beside: Beside = BESIDE) -> dict[str, Any]:
    """Return what a confined process answers, through JSON as it comes."""
    given = json.loads(json.dumps(asdict(beside)))
    found: dict[str, Any] = json.loads(json.dumps(read_generated(name, dedent(text), given, INPUTS)))
    return found


def planned(
    text: str, name: str = "more.yml", beside: Beside = BESIDE, limits: IrSettings | None = None
) -> dict[str, NewJob]:
    found = read(text, name, beside)
    assert not found["mistakes"]
    jobs = plan_generated(name, found, beside, limits or IrSettings(), BUILT)
    return {each.step_key: each for each in jobs}


def mistakes(text: str, name: str = "more.yml", beside: Beside = BESIDE, limits: IrSettings | None = None) -> list[str]:
    found = read(text, name, beside)
    if not found["mistakes"]:
        with pytest.raises(FileInvalid) as refused:
            plan_generated(name, found, beside, limits or IrSettings(), BUILT)
        return [str(each) for each in refused.value.mistakes]
    return list(found["mistakes"])


def test_jobs_depend_on_positions_in_the_build():
    found = planned("""
        jobs:
          last: {needs: [first, test], run: x}
          first: {run: x}
          child: {from: maker, files: {test: "*"}, run: x}
          after: {needs: install, run: x}
        """)
    assert list(found) == ["first", "last", "child", "after"]
    assert {key: [each.position for each in job.depends_on] for key, job in found.items()} == {
        "first": [4],
        "last": [1, 2, 5],
        "child": [1, 2, 4],
        "after": [0, 4],
    }
    assert found["child"].depends_on[-1].kind is EdgeKind.BUILDS_IN


def test_a_job_has_the_image_of_the_disk_it_starts_from():
    found = planned("jobs: {a: {from: maker, run: x}, b: {from: a, run: x}, c: {from: install, run: x}}")
    assert [found[key].image for key in "abc"] == ["debian:12", "debian:12", "python:3.12"]


def test_what_a_skipped_job_would_have_waited_for_counts():
    (job,) = planned("jobs: {a: {needs: docs, run: x}}").values()
    assert [(each.position, each.continue_on_failure) for each in job.depends_on] == [
        (0, False),
        (3, True),
        (4, False),
    ]


def test_defaults_env_and_names_are_as_in_a_pipeline():
    (job,) = planned("""
        env: {A: "${{ inputs.target }}"}
        defaults: {image: "python:3.12", cpu: 1, network: false}
        x-note: nothing
        jobs: {a: {name: "of ${{ build.number }}", run: x, when: {branch: ma*, inputs: {target: b}}}}
        """).values()
    assert (job.name, job.image, job.network, job.skipped) == ("of 7", "python:3.12", False, None)
    assert job.shape == Shape(1, 4, 20)
    assert job.env == {"A": "b", "INPUT_TARGET": "b"}


def test_a_condition_skips_a_generated_job():
    found = planned("jobs: {a: {run: x, when: {branch: v*}}, b: {needs: a, run: x}}")
    assert found["a"].skipped
    assert [each.position for each in found["b"].depends_on] == [4, 5]


def test_json_says_the_same():
    text = json.dumps({"version": "1", "jobs": {"a": {"run": "x", "network": False, "cpu": 2}}}, indent=1)
    assert planned(text, "more.json") == planned(text)
    assert mistakes('{"jobs": {"a": {\n"rum": "x"}}}', "a.json") == [
        'a.json:2:1: jobs.a.rum: unknown key "rum": did you mean "run"?'
    ]
    assert mistakes('{"jobs": ', "a.json") == [
        "a.json:1:1: the pipeline IR is not valid JSON: Expecting value: line 1 column 10"
    ]
    assert planned('{"jobs": {"a": {"run": "\\ud83d\\ude00"}}}', "a.json")["a"].command == "\U0001f600"  # no YAML


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("jobs: {maker: {run: x}}", '1:8: jobs.maker: the build has a job "maker" already: give this one another key'),
        ("jobs: {test: {run: x}}", '1:8: jobs.test: the build has a job "test" already: give this one another key'),
        ("jobs: {a: {run: x, needs: instal}}", '1:20: jobs.a.needs[0]: unknown job "instal": did you mean "install"?'),
        (
            "jobs: {a: {run: x, from: test}}",
            '1:20: jobs.a.from: "test" has a matrix, and so several disks: start from a job without one',
        ),
        (
            "jobs: {a: {run: x, from: docs}}",
            '1:20: jobs.a.from: "docs" has left no disk: start from the job that generates this one, or from an image',
        ),
        (
            "jobs: {a: {run: x, files: {maker: y}}}",
            '1:28: jobs.a.files.maker: "maker" keeps no files: name them in its "artifacts"',
        ),
        (
            "on: {push: true}\njobs: {a: {run: x}}",
            "1:1: on: it has no effect here: a generated file has `jobs`, and `defaults` and `env` of these",
        ),
        (
            "jobs: {a: {run: x, use: jobs/b.yml}}",
            "1:20: jobs.a.use: a document alone has no other files: `ci-daemon render` writes the used job into it",
        ),
        ("jobs: {a: {run: x, cpu: 99}}", "1:20: jobs.a.cpu: expected at most 16"),
        (
            "jobs: {a: {run: 'echo ${{ build.branch }}'}}",
            "is what a stranger may choose, and must not become a command",
        ),
        ("jobs: {a: {run: x, needs: b}, b: {run: x, needs: a}}", "dependency cycle"),
        ("jobs: {a: {run: x}, a: {run: y}}", 'the key "a" stands twice here'),
        ("jobs: []", "1:1: jobs: expected a mapping, got a list"),
        ("- a", "1:1: expected a mapping with jobs"),
        ("", "1:1: the file is empty"),
        ("a: !!python/object:x.y {}", "means nothing here"),
        (
            "jobs: {a: {run: x, generates: b.yml, cache: true}}",
            "1:38: jobs.a.cache: a job that generates jobs is not cached: it would pass without its file",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(text: str, mistake: str):
    (found,) = mistakes(text)
    assert found.startswith("more.yml:1:")
    assert mistake in found


def test_all_mistakes_are_told_at_once():
    assert len(mistakes("slug: a\nname: b\njobs: {maker: {run: x}, a: {run: x, needs: none}, b: {}}")) == 5


def test_a_bomb_of_aliases_is_refused():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    (found,) = mistakes("\n".join(lines))
    assert found.endswith("aliases expand to too much")


def test_jobs_of_the_build_count_for_the_limits():
    limits = IrSettings(max_jobs=6)
    assert len(planned("jobs: {a: {run: x}}", limits=limits)) == 1
    (found,) = mistakes("jobs: {a: {run: x}, b: {run: x}}", limits=limits)
    assert found == "more.yml:1:1: jobs: expected at most 6 jobs in the build"
    large = Beside((KnownJob("maker", "maker", bytes=990),))
    (found,) = mistakes("jobs: {a: {run: '01234567890123456789'}}", beside=large, limits=IrSettings(max_bytes=1000))
    assert "expected at most 1000 bytes of commands and env in all jobs together" in found


def test_a_cell_may_not_have_the_name_of_a_job():
    (found,) = mistakes(
        "jobs: {a: {matrix: {v: [1]}, run: x}}", beside=Beside((KnownJob("maker", "maker"), KnownJob("a-1", "a-1")))
    )
    assert found == 'more.yml:1:8: jobs.a: two jobs have the key "a-1", as the matrix makes them'


def test_the_last_level_generates_none():
    text = "jobs: {a: {run: x, generates: b.yml}}"
    assert planned(text)["a"].generates == "b.yml"
    (found,) = mistakes(text, beside=Beside(BESIDE.jobs, 4, may_generate=False))
    assert found.startswith("more.yml:1:20: jobs.a.generates: this is as deep as jobs may generate jobs: ")


@pytest.mark.parametrize(
    ("ir", "inputs"),
    [
        ('{"version": "1", "on": {"manual": {"inputs": {"a": {}}}}}', {"a": {}}),
        ('{"version": "1", "on": {"manual": false}}', {}),
        ('{"version": "1", "on": {"manual": {}}}', {}),
        ('{"version": "0"}', {}),
        ("[]", {}),
    ],
)
def test_inputs_are_those_of_the_pipeline(ir: str, inputs: dict[str, Any]):
    assert declared_inputs(ir) == inputs
