"""Proofs of flaky tests: measured by runs on forks of the disk before their job, across a crash."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.builds.vendored_pytest import with_pytest
from tests.e2e.console.visitor import visitor
from tests.e2e.daemon import Build, Client, Daemon, Pipeline
from tests.e2e.pipelines import one
from tests.waiting import until

NAME = "<script>document.title=42</script> $(touch /workspace/injected)"
FAILS_IN_30_PERCENT = f"""
failure='<failure/>'
if [ $(( ${{CI_TEST_RUN:-0}} * 7 % 10 )) -ge 3 ]; then failure=; fi
[ ! -e out ] && mkdir out
name='{NAME.replace("<", "&lt;")}'
case="<testcase name='$name'>$failure</testcase>"
echo "<testsuite name='unit'>$case<testcase name='sound'/></testsuite>" >out/unit.xml
[ -z "$failure" ]
"""
PYTEST = "PYTHONPATH=pytest.zip python3 -m pytest -q -p no:cacheprovider --junitxml=out/unit.xml"
TESTS = """\
import os, pytest

@pytest.mark.parametrize("text", ["it's $(touch /workspace/injected)"])
def test_draws(text):
    assert os.environ.get("CI_TEST_RUN") == "2"

def test_other():
    assert "CI_TEST_RUN" not in os.environ
"""


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {"CI_DAEMON_POOL_PARKED": "0", "CI_DAEMON_POOL_MAX_VMS": "6"}


def failed_build(pipeline: Pipeline, command: str, source: bytes | None = None) -> tuple[Build, str]:
    """Return a build whose only job failed, and the name of the job."""
    build = pipeline.build(one(command, runner_args={"artifacts": ["out/*.xml"]}), source=source, commit="c0ffee")
    assert build.finish()["state"] == "failed", build.log()
    return build, f"{build.client.org}/{pipeline.slug}/{build.record()['number']}/only"


def test_a_test_that_fails_in_30_percent_is_measured(daemon: Daemon, pipeline: Pipeline, client: Client):
    """The daemon is killed meanwhile, and each run counts once."""
    build, name = failed_build(pipeline, FAILS_IN_30_PERCENT)
    job = build.jobs()["only"]
    begun = client.request("POST", f"{build.path}/jobs/{job['id']}/proofs", json={})
    assert begun.status_code == 201, begun.text
    path = f"pipelines/{pipeline.slug}/proofs/{begun.json()['id']}"
    until(lambda: client.get(path)["runs"] >= 2, "two runs")
    daemon.kill()
    daemon.start()
    proof = until(lambda: (found := client.get(path))["state"] != "running" and found, "all runs", 60)

    assert (proof["state"], proof["runs"], proof["troubles"]) == ("finished", 20, [])
    (tested,) = proof["tests"]
    assert (tested["suite"], tested["name"], tested["passed"], tested["failed"]) == ("unit", NAME, 14, 6)
    assert tested["low"] <= 0.7 <= tested["high"]
    assert build.jobs()["only"] == job
    daemon.wait_until_idle()
    assert daemon.vms() == []
    assert daemon.command("ledger", "verify").returncode == 0
    (past,) = client.get(f"pipelines/{pipeline.slug}/test-proofs", params={"name": NAME, "suite": "unit"})["data"]
    assert (past["proof_id"], past["build_number"], past["commit"], past["test"]) == (proof["id"], 1, "c0ffee", tested)
    shown = daemon.command("test", "proofs", name.rpartition("/")[0]).stdout
    assert "passed 14 of 20" in " ".join(shown.split())


def test_a_person_has_a_failed_test_run_again(browser: Browser, client: Client, pipeline: Pipeline):
    build, _ = failed_build(pipeline, FAILS_IN_30_PERCENT)
    with visitor(browser, client, bypass_csp=True) as ada:
        page = ada.open(f"/{build.path}")
        expect(page.get_by_role("button", name="Run it 20 times: what failed in only")).to_be_visible()
        page = ada.open(f"/{build.path}?view=tests")
        page.get_by_role("button", name="Run it 20 times: <script>").click()
        expect(page.locator("#proofs")).to_contain_text("Passed 14 of 20", timeout=60_000)
        assert ada.barriers() == []
        assert ada.faults == []
        assert page.title() != "42"


def test_tests_of_pytest_run_alone(daemon: Daemon, pipeline: Pipeline, client: Client):
    """Their names are no part of a program. One that has no report is proved as a whole job."""
    _, name = failed_build(pipeline, PYTEST, with_pytest({"test_it.py": TESTS}))
    proved = daemon.json("test", "prove", name, "--times", "3")
    assert (proved["alone"], [(each["name"], each["passed"], each["failed"]) for each in proved["tests"]]) == (
        True,
        [("test_draws[it's $(touch /workspace/injected)]", 1, 2)],
    )
    by_template = ("--command", "[ {tests} = test_other ]", "--times", "1")
    (other,) = daemon.json("test", "prove", name, "test_it::test_other", *by_template)["tests"]
    assert (other["passed"], other["failed"]) == (1, 0)
    of_pipeline = ("pipeline", "edit", client.org, pipeline.slug)
    for command, passes in (("[ {tests} = test_other ]", 1), ("[ {tests} = test_none ]", 0)):
        daemon.command(*of_pipeline, "--test-command", command)
        (other,) = daemon.json("test", "prove", name, "test_it::test_other", "--times", "1")["tests"]
        assert (other["passed"], other["failed"]) == (passes, 1 - passes)
    daemon.command(*of_pipeline, "--no-test-command")
    refused = daemon.command("test", "prove", name, "test_none", check=False)
    assert (refused.returncode, 'there is no test "test_none"' in refused.stderr) == (1, True)

    build, name = failed_build(pipeline, "[ ${CI_TEST_RUN:-1} = 2 ]")
    whole = daemon.command("test", "prove", name, "--times", "2")
    assert "the job: passed 1 of 2" in whole.stdout
    poor = daemon.command("test", "prove", name, "--max-cents", "1", check=False)
    assert (poor.returncode, "may cost more than is left of 1 cents" in poor.stderr) == (1, True)
    begun = daemon.json("test", "prove", name, "--times", "50", "--no-wait")
    assert daemon.json("test", "cancel", f"{client.org}/{pipeline.slug}", begun["id"])["state"] == "canceled"
    daemon.wait_until_idle()
    assert daemon.vms() == []
    assert build.client.get(f"{build.path}/proofs")["data"][0]["runs"] < 50
