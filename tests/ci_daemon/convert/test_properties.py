"""Conversions are what the language reads, and no job is there without all that it waits for."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.ir import IrSettings, PipelineFile, load
from actors.ir.systems import NotReadable, Omissions, convert_github, convert_gitlab
from actors.ir.systems.located import read
from actors.ir.systems.model import ConvertedPipeline
from ci_daemon.convert.conversion import written
from ci_daemon.convert.kinds import Kind, kind_of
from tests.rendering import planned_yaml

NAMES = st.sampled_from(["a", "b", "c", "d"])
TEXTS = st.text(max_size=12) | st.sampled_from(
    ["x", "make\ntest", "${{ matrix.v }}", "${{ github.sha }}", "$CI_COMMIT_SHA", "$X", "é\n\0"]
)
SCALARS = TEXTS | st.integers() | st.floats(allow_nan=False) | st.booleans() | st.none()
ANY = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=6
)


def mostly(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return values of a strategy, and of all kinds now and then."""
    return st.integers(0, 9).flatmap(lambda number: usual if number else ANY)


def mappings(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries({}, optional={name.replace("_", "-"): mostly(each) for name, each in members.items()})


ENVS = st.dictionaries(st.sampled_from(["A", "B", "GITHUB_SHA", "a b"]), mostly(TEXTS), max_size=2)
STEPS = st.lists(
    mappings(run=TEXTS, env=ENVS, name=TEXTS, shell=st.sampled_from(["bash", "sh", "pwsh"]), working_directory=TEXTS)
    | st.just({"run": "make"})
    | st.just({"uses": "actions/checkout@v4"})
    | st.builds(lambda path: {"uses": "actions/upload-artifact@v4", "with": {"path": path}}, TEXTS),
    min_size=1,
    max_size=3,
)
GITHUB_JOBS = mappings(
    name=TEXTS,
    needs=st.lists(NAMES, max_size=2),
    env=ENVS,
    strategy=st.builds(lambda values: {"matrix": {"v": values}}, st.lists(SCALARS, max_size=3)),
    timeout_minutes=st.integers(),
    continue_on_error=st.booleans(),
    steps=STEPS,
).map(lambda job: {"runs-on": "ubuntu-latest", "container": "a", "steps": [{"run": "x"}], **job})
PUSHES = mappings(branches=st.lists(TEXTS, max_size=2), tags=st.lists(TEXTS, max_size=2))
WORKFLOWS = st.fixed_dictionaries(
    {
        "name": mostly(TEXTS),
        "on": st.just("push") | mostly(st.fixed_dictionaries({"push": PUSHES})),
        "jobs": st.dictionaries(NAMES | TEXTS, GITHUB_JOBS, min_size=1, max_size=4),
        "env": ENVS,
    }
)
SCRIPTS = st.lists(TEXTS, min_size=1, max_size=3)
RULES = st.lists(
    st.sampled_from([{"if": "$CI_COMMIT_BRANCH"}, {"if": '$CI_COMMIT_BRANCH == "main"'}, {"if": "$CI_COMMIT_TAG"}]),
    min_size=1,
    max_size=2,
)
GITLAB_JOBS = (
    st.fixed_dictionaries(
        {},
        optional={
            "script": mostly(SCRIPTS),
            "after_script": mostly(SCRIPTS),
            "stage": mostly(st.sampled_from(["build", "test", "deploy"])),
            "image": mostly(TEXTS),
            "needs": mostly(st.lists(NAMES, max_size=2)),
            "dependencies": mostly(st.lists(NAMES, max_size=2)),
            "variables": ENVS,
            "only": mostly(st.lists(st.sampled_from(["main", "tags", "branches", "dev"]), max_size=2)),
            "rules": mostly(RULES),
            "when": mostly(st.sampled_from(["on_success", "manual", "on_failure"])),
            "artifacts": mostly(st.fixed_dictionaries({"paths": st.lists(TEXTS, max_size=2)})),
            "parallel": mostly(st.integers(1, 4)),
            "retry": mostly(st.integers(0, 3)),
            "timeout": mostly(st.sampled_from(["1h", "3 minutes", "0s", "x"])),
            "allow_failure": mostly(
                st.booleans() | st.fixed_dictionaries({"exit_codes": st.lists(st.integers(), max_size=2)})
            ),
        },
    )
).map(lambda job: {"script": ["x"], "image": "a", **job})
GITLAB_FILES = st.builds(
    lambda jobs, variables: {**jobs, "variables": variables},
    st.dictionaries(NAMES | TEXTS, GITLAB_JOBS, min_size=1, max_size=4),
    ENVS,
)


def converted(document: object) -> tuple[ConvertedPipeline, ...]:
    """Return the pipelines of a file as JSON, which is YAML, too; none if it is refused."""
    try:
        found, omissions = read(json.dumps(document, ensure_ascii=False)), Omissions("f")
        if kind_of(found) is Kind.WORKFLOW:
            pipelines = convert_github(found, "1 ci", omissions)
        else:
            pipelines = convert_gitlab(found, omissions)
        for each in pipelines:
            written(each, "")
    except NotReadable:
        return ()
    assert pipelines or omissions.all
    return pipelines


def assert_reads_back(pipelines: tuple[ConvertedPipeline, ...]) -> None:
    """The text says what the model says, and no command has lost a line."""
    for each in pipelines:
        read_back = PipelineFile.parse("ci.yml", written(each, "")).declared({}, 0)["definition"]
        document = {"version": "1", **each.document}
        plans = [load(json.dumps(one), IrSettings()) for one in (read_back, document)]
        assert plans[0] == plans[1]
        assert read_back.get("on") is None or set(read_back["on"]) == set(each.on)


@given(WORKFLOWS)
@settings(max_examples=100, deadline=None)
def test_a_workflow_reads_back_as_it_was(document: dict[str, Any]):
    assert_reads_back(converted(document))


@given(GITLAB_FILES)
@settings(max_examples=100, deadline=None)
def test_a_file_of_gitlab_reads_back_as_it_was(document: dict[str, Any]):
    assert_reads_back(converted(document))


GATED = st.lists(
    st.tuples(
        st.sampled_from(["build", "test", "deploy"]),
        st.none() | st.lists(st.integers(0, 5), max_size=3),
        st.booleans(),
    ),
    min_size=2,
    max_size=6,
)
"""Jobs of GitLab: the stage, what it needs, and whether it can be converted."""


def waits_of(pipelines: tuple[ConvertedPipeline, ...]) -> dict[str, set[str]]:
    """Return the jobs that a job waits for, directly or through others, by the plan of what is written."""
    found: dict[str, set[str]] = {}
    for plan in planned_yaml({f"{each.slug}.yml": written(each, "") for each in pipelines}).values():
        for job in plan.jobs:  # each after what it waits for
            before = [plan.jobs[each.position].name for each in job.depends_on]
            found[job.name] = set(before).union(*(found[each] for each in before))
    return found


@given(GATED)
@settings(max_examples=100, deadline=None)
def test_no_job_of_gitlab_has_lost_its_gate(given_jobs: list[tuple[str, list[int] | None, bool]]):
    names = [f"j{place}" for place in range(len(given_jobs))]
    document: dict[str, Any] = {}
    for name, (stage, needs, known) in zip(names, given_jobs, strict=True):
        job: dict[str, Any] = {"stage": stage, "image": "a", "script": "x"}
        job |= {} if needs is None else {"needs": [f"j{each}" for each in needs]}
        document[name] = job if known else {**job, "services": ["db"]}
    pipelines = converted(document)
    behind = waits_of(pipelines)
    stages = {name: ("build", "test", "deploy").index(document[name]["stage"]) for name in names}
    for name, waits in behind.items():
        gates = document[name].get("needs", [each for each in names if stages[each] < stages[name]])
        assert set(gates) <= waits


@given(st.lists(st.tuples(st.lists(st.integers(0, 5), max_size=3), st.booleans()), min_size=2, max_size=6))
@settings(max_examples=100, deadline=None)
def test_no_job_of_a_workflow_has_lost_its_gate(given_jobs: list[tuple[list[int], bool]]):
    jobs: dict[str, Any] = {}
    for place, (needs, known) in enumerate(given_jobs):
        job = {"runs-on": "docker", "container": "a", "steps": [{"run": "x"}], "needs": [f"j{each}" for each in needs]}
        jobs[f"j{place}"] = job if known else {**job, "if": "cancelled()"}
    pipelines = converted({"on": "push", "jobs": jobs})
    behind = waits_of(pipelines)
    assert all(set(jobs[name]["needs"]) <= waits for name, waits in behind.items())
    assert sum(len(each.jobs) for each in pipelines) == len(behind)
