"""`ci-daemon convert` on whole files: the steps that come of them, and all that is left out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from actors.ir import Plan
from ci_daemon.command import main
from storage import NewJob
from tests.rendering import planned_yaml

SAMPLES = Path(__file__).parents[2] / "data" / "convert"


def converted(sample: str, place: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Plan, dict[str, Any]]:
    """Return the plan of a sample in a project, and the command's answer."""
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(SAMPLES / sample, place)
    assert main(["convert", str(place), "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    (plan,) = planned_yaml({Path(each).name: Path(each).read_text() for each in document["files"]}).values()
    return plan, document


def named(plan: Plan, name: str) -> NewJob:
    return next(job for job in plan.jobs if job.name == name)


def left_out(document: dict[str, Any]) -> list[tuple[int, str]]:
    return [(each["line"], each["key"]) for each in document["left_out"]]


def test_gitlab(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    plan, document = converted("gitlab.yml", tmp_path / ".gitlab-ci.yml", capsys)
    assert document["files"] == [str(tmp_path / ".hm" / "ci.yml")]
    assert [job.name for job in plan.jobs] == ["compile", "unit: [pg, 3.11]", "unit: [my, 3.11]", "lint", "deploy"]
    unit, lint = named(plan, "unit: [pg, 3.11]"), named(plan, "lint")
    assert [(plan.jobs[each.position].name, each.kind) for each in unit.depends_on] == [("compile", "builds_in")]
    assert (lint.depends_on, len(named(plan, "deploy").depends_on)) == ((), 4)
    assert (named(plan, "compile").image, unit.timeout_seconds) == ("python:3.12", 5400)
    assert (unit.retry_policy, unit.soft_fail_policy) == ({"limit": 2}, {"exit_codes": [2, 3]})
    assert {"A": "1", "B": "3", "DB": "pg", "PY": "3.11", "LEVEL": "3"}.items() <= unit.env.items()
    assert (lint.image, lint.soft_fail_policy) == ("alpine:3", {"exit_codes": None})
    assert named(plan, "compile").artifacts == ("build/", "*.log")
    assert left_out(document) == [
        (22, "compile.artifacts.expire_in"),
        (24, "unit"),
        (33, "unit.tags"),
        (41, "deploy"),
        (47, "manual.when"),
    ]
    assert 'on:\n  push: true\n  tag: ["*"]\n' in document["texts"]["ci.yml"]
    assert "# .gitlab-ci.yml:47: manual.when: the whole job is left out" in document["texts"]["ci.yml"]
    assert "      branch: [main]\n      not: {event: [pull_request]}\n" in document["texts"]["ci.yml"]


def test_github(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    plan, document = converted("github.yml", tmp_path / ".github" / "workflows" / "ci.yml", capsys)
    assert document["files"] == [str(tmp_path / ".hm" / "ci.yml")]
    assert [job.name for job in plan.jobs] == ["test (3.11)", "test (3.12)", "lint"]
    test, lint = named(plan, "test (3.12)"), named(plan, "lint")
    assert (test.image, test.timeout_seconds, test.secrets) == ("python:3.12", 600, ("TOKEN",))
    assert test.artifacts == ("report.xml",)
    assert test.command == (
        'export GITHUB_SHA="$CI_COMMIT"\nexport GITHUB_OUTPUT=/dev/null\n'
        "bash -e -c 'pip install -r requirements.txt'\n"
        "(cd -- 'app' && env MODE='it'\"'\"'s' bash --noprofile --norc -eo pipefail -c 'cd src\n"
        "pytest --junitxml=report.xml | tee log\n')\n"
        "env SHA=\"$CI_COMMIT\" bash -e -c 'echo $SHA $GITHUB_SHA >> $GITHUB_OUTPUT'"
    )
    assert (lint.image, lint.soft_fail_policy) == ("node:22", {"exit_codes": None})
    assert lint.command.endswith("sh -e -c 'npm run lint' || true")
    assert [plan.jobs[each.position].name for each in lint.depends_on] == ["test (3.11)", "test (3.12)"]
    assert left_out(document) == [
        (5, "on.pull_request"),
        (12, "jobs.test.runs-on"),
        (12, "jobs.test.runs-on"),
        (22, "jobs.test.steps[1].with.cache"),
        (30, "jobs.test.steps[3].env"),
        (34, "jobs.test.steps[5].uses"),
        (48, "jobs.windows.runs-on"),
        (53, "jobs.publish.steps[0]"),
    ]
    assert "on:\n  push: {branches: [main, release/*]}\n  pull_request: true\n" in document["texts"]["ci.yml"]
