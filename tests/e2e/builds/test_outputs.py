"""Outputs, summaries and annotations of jobs, from the command to the API, over kills of the daemon."""

from __future__ import annotations

import json

from tests.e2e.daemon import Daemon, Pipeline

DOCUMENT = {
    "version": "1",
    "jobs": {
        "make": {"run": "echo EARLY=1 >>$CI_OUTPUT; echo begun; sleep 1; echo LATE=2 >>$CI_OUTPUT"},
        "slow": {"needs": ["make"], "run": 'echo "$EARLY $LATE"; sleep 1; echo THIRD=$((EARLY + LATE)) >>$CI_OUTPUT'},
        "last": {"needs": ["make", "slow"], "run": 'echo "$EARLY $LATE $THIRD"'},
        "bad": {"run": "echo nonsense >>$CI_OUTPUT", "soft_fail": True},
        "said": {
            "needs": ["slow"],
            "run": "echo '# <b>Done</b>' >>$CI_SUMMARY; echo warning a.py:2 odd >>$CI_ANNOTATIONS\n"
            "echo a.c:3:7: error: bad",
            "problems": "gcc",
        },
    },
}


def test_outputs_reach_other_jobs_over_kills(daemon: Daemon, pipeline: Pipeline) -> None:
    build = pipeline.build(json.dumps(DOCUMENT))
    for said, key in (("begun\n", "make"), ("1 2\n", "slow")):
        build.says(said, key)
        daemon.kill()
        daemon.start()
    assert build.finish()["state"] == "passed"
    assert build.log("make") == "begun\noutputs: EARLY, LATE\n"
    assert build.log("last") == "1 2 3\n"
    given = {
        key: build.client.get(f"{build.path}/jobs/{job['id']}/outputs")["variables"]
        for key, job in build.jobs().items()
    }
    assert {key: variables for key, variables in given.items() if variables} == {
        "make": {"EARLY": "1", "LATE": "2"},
        "slow": {"THIRD": "3"},
    }
    (summary,) = build.client.get(f"{build.path}/summaries")["data"]
    assert (summary["job_name"], summary["text"]) == ("said", "# <b>Done</b>\n")
    found = [
        tuple(each[key] for key in ("level", "path", "line", "column", "message", "matcher", "log_line"))
        for each in build.client.get(f"{build.path}/annotations")["data"]
    ]
    assert found == [
        ("warning", "a.py", 2, None, "odd", None, None),
        ("error", "a.c", 3, 7, "bad", "gcc", 1),
    ]
    bad = build.jobs()["bad"]
    assert (bad["state"], bad["error_code"]) == ("failed", "outputs_invalid")
    error = build.client.get(f"{build.path}/jobs/{bad['id']}/outputs")["error_message"]
    assert error == bad["error_message"] == "$CI_OUTPUT cannot be used: line 1 is not NAME=value"
