"""Steps with all that they need."""

from __future__ import annotations

import json

import pytest

from actors.ir import IrSettings, Plan, load
from ci_daemon.local.selection import UnknownStep, select_steps, step_named, without_deployments
from storage import EdgeKind
from tests.e2e.pipelines import Graph


@pytest.fixture
def plan() -> Plan:
    graph = Graph().step("install", "i").step("docs", "d").step("lint", "l", builds_in="install")
    graph.step("test", "t", builds_in="install", label="Unit tests")
    graph.step("report", "r", builds_in="test", after=("lint",))
    return load(graph.ir(), IrSettings())


def keys(plan: Plan) -> list[str]:
    return [job.step_key for job in plan.jobs]


@pytest.mark.parametrize(
    ("wanted", "selected"),
    [
        (["install"], ["install"]),
        (["test"], ["install", "test"]),
        (["Unit tests"], ["install", "test"]),
        (["report"], ["install", "lint", "test", "report"]),
        (["docs", "lint"], ["install", "docs", "lint"]),
    ],
)
def test_a_step_is_selected_with_its_ancestors(plan: Plan, wanted: list[str], selected: list[str]):
    assert sorted(keys(select_steps(plan, wanted))) == sorted(selected)


def test_dependencies_point_to_the_same_steps_as_before(plan: Plan):
    selected = select_steps(plan, ["report"])
    report = selected.jobs[keys(selected).index("report")]
    found = {selected.jobs[each.position].step_key: each.kind for each in report.depends_on}
    assert found == {"test": EdgeKind.BUILDS_IN, "lint": EdgeKind.DEPENDS_ON}


def test_an_unknown_step_is_refused_with_all_that_there_are(plan: Plan):
    with pytest.raises(UnknownStep, match=r'no step "tests": .*install, docs, lint, test \(Unit tests\), report'):
        select_steps(plan, ["tests"])


def test_a_name_of_two_steps_chooses_neither():
    plan = load(Graph().step("a", "1", label="Test").step("b", "2", label="Test").ir(), IrSettings())
    with pytest.raises(UnknownStep, match=r'several steps are named "Test": .* a \(Test\), b \(Test\)'):
        step_named(plan.jobs, "Test")


def test_a_job_with_a_gate_runs_only_if_it_is_chosen():
    deploy = {"run": "d", "gate": {"environment": "production"}}
    jobs = {"test": {"run": "t"}, "deploy": {**deploy, "needs": "test"}, "after": {"run": "a", "needs": "deploy"}}
    plan = load(json.dumps({"version": "1", "jobs": jobs}), IrSettings())
    left_out = {job.step_key: job.skipped for job in without_deployments(plan, []).jobs}
    why = 'it deploys to "production": name the step to run it here, without an approval'
    assert left_out == {"test": None, "deploy": why, "after": None}
    chosen = without_deployments(select_steps(plan, ["deploy"]), ["deploy"])
    assert [(job.step_key, job.skipped, job.environment) for job in chosen.jobs] == [
        ("test", None, None),
        ("deploy", None, None),
    ]
