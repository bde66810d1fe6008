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
