"""The language of pipelines in Python: its documents, their plans, and what files are told of a build."""

from __future__ import annotations

import json
from textwrap import dedent, indent
from typing import Any

import pytest
from hypothesis import given, settings

from actors.ir import Built, IrSettings, PipelineFile, load
from actors.ir.language.checking import check
from actors.ir.language.python_keys import python_key
from actors.render.guest.language import Build
from tests.actors.ir.language.files import plan
from tests.actors.ir.language.test_round_trip import documents
from tests.rendering import documents_of

HEAD = "from ci_daemon.language import build, files, job, pipeline\n\n\n@pipeline('ci')\ndef ci():\n"
PAIRS = {
    "edges": (
        "{i: {image: debian:12, run: x}, a: {from: i, run: x}, b: {needs: [i, a], run: x}, c: {needs: a, run: x}}",
        """
        i = job("i", image="debian:12", run="x")
        a = i.then("a", run="x")
        job("b", needs=[i, "a"], run="x")
        job("c", needs=a, run="x")
        """,
    ),
    "every kind of value": (
        """
        {a: {name: A b, image: debian:12, run: x, env: {V: 3.10}, timeout: 1h, shell: [python3, -c],
         working_directory: sub, retry: {limit: 2, exit_codes: 75, backoff: 10s}, soft_fail: true, secrets: TOKEN,
         artifacts: [dist/*], cpu: 2, memory: 8GB, disk: 40GB, network: false, cache: {days: 1, key: v2}}}
        """,
        """
        job(
            "a", name="A b", image="debian:12", run="x", env={"V": "3.10"}, timeout="1h", shell=["python3", "-c"],
            working_directory="sub", retry={"limit": 2, "exit_codes": 75, "backoff": "10s"}, soft_fail=True,
            secrets="TOKEN", artifacts=["dist/*"], cpu=2, memory="8GB", disk="40GB", network=False,
            cache={"days": 1, "key": "v2"},
        )
        """,
    ),
    "a matrix": (
        """
        {a: {matrix: {v: [1, 2], w: [x, y], exclude: [{v: 1, w: y}]}, run: 'echo ${{ matrix.v }}'},
         b: {needs: a, run: x}}
        """,
        """
        cells = {"v": ["1", "2"], "w": ["x", "y"], "exclude": [{"v": "1", "w": "y"}]}
        a = job("a", matrix=cells, run="echo ${{ matrix.v }}")
        job("b", needs=a, run="x")
        """,
    ),
    "conditions": (
        """
        {a: {when: {branch: main, not: {fork: true, not: {event: push}}}, run: x},
         b: {needs: a, when: {status: always}, run: x}}
        """,
        """
        a = job("a", when={"branch": "main", "not_": {"fork": True, "not_": {"event": "push"}}}, run="x")
        job("b", needs=[a], when={"status": "always"}, run="x")
        """,
    ),
    "files of a cache": (
        "{a: {cache: {files: [r.txt]}, run: x}}",
        "job('a', cache=files('r.txt'), run='x', image=None)",
    ),
}


def declared(body: str, built: Built | None = None) -> dict[str, Any]:
    """Return the entry in the envelope of the pipeline whose function has this body."""
    (document,) = documents_of(HEAD + indent(dedent(body), "    "), built)
    return PipelineFile.rendered(document).declared({"r.txt": "digest"}, 1767225600.0)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("built", [None, Built(branch="main"), Built(branch="other", fork=True)], ids=["", "main", "f"])
def test_a_pipeline_plans_the_same_in_both_languages(name: str, built: Built | None):
    in_yaml, in_python = PAIRS[name]
    planned = load(json.dumps(declared(in_python)["definition"]), IrSettings(), built)
    assert planned == plan("jobs: " + " ".join(in_yaml.split()), {"r.txt": "digest"}, built=built)


def written(document: dict[str, Any]) -> str:
    """Return the text of a file that declares the pipeline of a document."""
    calls = []
    for key, each in document["jobs"].items():
        keys = {**each, **({"when": _reserved(each["when"])} if "when" in each else {})}
        calls.append(f"    job({', '.join([repr(key), *(f'{python_key(k)}={v!r}' for k, v in keys.items())])})")
    keys = [f"{key}={value!r}" for key, value in document.items() if key != "jobs"]
    head = f"from ci_daemon.language import job, pipeline\n@pipeline({', '.join(['slug', *keys])})\ndef any():\n"
    return f"slug = 'any'\n{head}" + "\n".join(calls)


def _reserved(condition: dict[str, Any]) -> dict[str, Any]:
    return {python_key(key): _reserved(each) if key == "not" else each for key, each in condition.items()}


@settings(max_examples=50, deadline=None)
@given(documents())
def test_a_pipeline_is_the_same_through_python(document: dict[str, Any]):
    (rendered,) = documents_of(written(document))
    assert rendered["document"] == {"version": "1", "slug": "any", **document}
    assert check(rendered["document"]).jobs == check(document).jobs


def test_a_mistake_has_the_place_of_its_call():
    body = """
    job("a", imge="x",
        run="x")
    first = job("b", run="x")
    (
        first
        .then("c", run="x", cpu="2", needs="d")
    )
    """
    (document,) = documents_of(HEAD + indent(dedent(body), "    "))
    places = [(["jobs", "a"], 7), (["jobs", "b"], 9), (["jobs", "c"], 12)]
    assert [(path, line) for path, line, _ in document["marks"]] == [([], 4), *places]
    assert document["marks"][1][2] == 5


WRONG = {
    "job('a', run=object())": "a pipeline cannot have <object object",
    "job('a', run='x', env={1: 'x'})": "a key is a text, and not 1",
    "job(1, run='x')": "the key of a job is a text, and not 1",
    "job('a', run='x'); job('a', run='y')": "two jobs have the key 'a'",
    "build.brnch": "build has no 'brnch': it has branch, commit, ",
}


@pytest.mark.parametrize("body", WRONG)
def test_what_no_document_can_say_is_refused_at_its_call(body: str):
    with pytest.raises((TypeError, ValueError, AttributeError), match=WRONG[body]):
        documents_of(f"{HEAD}    {body}")


def test_a_job_outside_of_a_pipeline_is_refused():
    with pytest.raises(RuntimeError, match=r"the job 'a' is in no pipeline: declare it in a function with @pipeline"):
        documents_of("from ci_daemon.language import job\njob('a', run='x')")


def test_a_file_knows_what_is_built():
    body = "job('a', run='x', env={each: f'{getattr(build, each)}' for each in sorted(type(build).__annotations__)})"
    built = Built(
        "push", "main", "c0", "v1", "7", repository="r", fork=True, number="12", changed=("docs/a", "b"), inputs={}
    )
    told = declared(body, built)["definition"]["jobs"]["a"]["env"]
    assert told == {name: str(value) for name, value in built.facts.items()}
    assert declared(body)["definition"]["jobs"]["a"]["env"] == dict.fromkeys(told, "") | {
        "fork": "False",
        "inputs": "{}",
        "changed_files": "[]",
    }
    assert sorted(Build.__annotations__) == sorted(built.facts)


INPUTS = """
from ci_daemon.language import build, job, pipeline

@pipeline("a", on={"manual": {"inputs": {
    "target": {"choice": ["staging", "production"], "default": "staging"}, "dry_run": {"boolean": True},
    "note": {}, "count": {"number": True, "default": 3}, "on": {"boolean": True, "default": True}}}})
def a():
    job("a", run="x", env={"GIVEN": ",".join(f"{name}={value}" for name, value in build.inputs.items())})
    %s
"""


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ({}, "target=staging,dry_run=false,note=,count=3,on=true"),
        (
            {"target": "production", "note": "$(touch x)"},
            "target=production,dry_run=false,note=$(touch x),count=3,on=true",
        ),
        ({"target": "elsewhere", "dry_run": "maybe"}, "target=staging,dry_run=false,note=,count=3,on=true"),
    ],
)
def test_a_function_has_the_inputs_that_fit(given: dict[str, str], values: str):
    (found,) = documents_of(INPUTS % "", Built(inputs=given))
    assert found["document"]["jobs"]["a"]["env"] == {"GIVEN": values}


def test_an_input_is_read_in_a_function_by_its_name():
    with pytest.raises(KeyError, match="the pipeline declares no input 'targt': it has target, dry_run, note"):
        documents_of(INPUTS % "build.inputs['targt']")
    with pytest.raises(RuntimeError, match=r"build.inputs is of one pipeline"):
        documents_of("from ci_daemon.language import build\nbuild.inputs")


@pytest.mark.parametrize(
    ("changed", "wanted", "told"),
    [
        (("docs/a.md",), "docs/", True),
        (("docs/a.md",), "src/", False),
        (("a",), "a", True),
        ((), "a", False),
        (None, "a", True),
    ],
)
def test_a_file_knows_which_files_changed(changed: tuple[str, ...] | None, wanted: str, told: bool):
    body = f"job('a', run='x', env={{'IN': str({wanted!r} in build.changed_files)}})"
    assert declared(body, Built(changed=changed))["definition"]["jobs"]["a"]["env"] == {"IN": str(told)}


@pytest.mark.parametrize("branch", ["main", "x"])
def test_a_condition_of_python_is_of_the_build(branch: str):
    body = "job('a', run='x')\nif build.branch == 'main':\n    job('b', run='x')"
    assert list(declared(body, Built(branch=branch))["definition"]["jobs"]) == ["a", "b"][: 1 + (branch == "main")]
