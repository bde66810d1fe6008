"""`ci-daemon run` with jobs that a job generates."""

from __future__ import annotations

import json

from tests.ci_daemon.local.projects import Project


def test_generated_jobs_run_and_are_shown(project: Project):
    more = json.dumps({"jobs": {"generated": {"from": "plan", "run": "cat made"}}})
    plan = {"run": f"echo word >made; echo '{more}' >more.json", "generates": "more.json"}
    (project.tree / "pipeline.json").write_text(json.dumps({"version": "1", "jobs": {"plan": plan}}))
    code, printed = project.run()
    assert code == 0, printed
    assert "generated | word" in printed.splitlines()
    assert [line.split()[:2] for line in printed.splitlines() if " passed  " in line][-1] == ["generated", "passed"]


def test_a_generated_job_with_a_gate_is_told_in_words(project: Project):
    """Nobody approves here, and the organization of a local run has no environments."""
    more = json.dumps({"jobs": {"deploy": {"run": "echo deployed", "gate": {"environment": "production"}}}})
    plan = {"run": f"echo '{more}' >more.json", "generates": "more.json"}
    (project.tree / "pipeline.json").write_text(json.dumps({"version": "1", "jobs": {"plan": plan}}))
    code, printed = project.run()
    assert code == 1, printed
    assert 'it deploys to "production": this run has no approvals, and deploys nothing' in printed
    assert "environment_not_found" not in printed
    assert "deploy | deployed" not in printed
