"""Quarantine of tests: a real pytest in a VM, whose failure counts or does not."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.builds.vendored_pytest import with_pytest
from tests.e2e.console.visitor import visitor
from tests.e2e.daemon import Build, Client, Daemon, Pipeline
from tests.e2e.pipelines import Graph

TESTS = """\
import os

def test_draws():
    assert "draws" not in os.environ["FAIL"]

def test_sound():
    assert "sound" not in os.environ["FAIL"]
"""
CALL = "PYTHONPATH=pytest.zip python3 -m pytest -q -p no:cacheprovider --junitxml=out/unit.xml"


@pytest.fixture(scope="module")
def source() -> bytes:
    return with_pytest({"test_it.py": TESTS})


def built(pipeline: Pipeline, source: bytes, fail: str, command: str = CALL) -> Build:
    graph = Graph().step("unit", command, env={"FAIL": fail}, runner_args={"artifacts": ["out/*.xml"]})
    build = pipeline.build(graph.step("after", "true", after=("unit",)).ir(), source=source)
    build.finish()
    return build


def test_a_test_in_quarantine_fails_no_build(
    daemon: Daemon, browser: Browser, client: Client, pipeline: Pipeline, source: bytes
):
    """All else does: another test, another exit, an option, an old report; and the end of the quarantine."""
    name = f"{client.org}/{pipeline.slug}"
    assert built(pipeline, source, "draws").record()["state"] == "failed"
    put = ("test", "quarantine", name, "test_it::test_draws", "--days", "7", "--owner", client.email)
    made = daemon.json(*put)
    again = daemon.command(*put, check=False)
    assert (again.returncode, "in quarantine already" in again.stderr) == (1, True)

    excused = built(pipeline, source, "draws")
    assert excused.record()["state"] == "passed", excused.log("unit")
    job = excused.jobs()["unit"]
    words = f"failed, in quarantine until {made['expires_at'][:10]}: 1 test"
    assert (job["state"], job["soft_failed"], job["error_code"], job["error_message"]) == ("failed", True, None, words)
    assert excused.states()["after"] == "passed"
    assert f"{words}; so this is a soft failure" in excused.log("unit")

    (kept,) = client.get(f"{excused.path}/artifacts")["data"]
    report = client.request("GET", kept["download_url"].partition(daemon.url)[2] or kept["download_url"]).text
    for fail, command, why in (
        ("draws sound", CALL, "1 of the tests that failed is not in it"),
        ("draws", f"{CALL} -x", "has the option -x"),
        ("draws", f"{CALL}; exit 1", "settings of the shell"),
        ("draws", f"{CALL} --maxfail 1 || {CALL}", "alternatives"),
        ("draws", f"false && {CALL}", "does not say that this attempt has written it"),
    ):
        build = built(pipeline, with_pytest({"test_it.py": TESTS, "out/unit.xml": report}), fail, command)
        assert build.record()["state"] == "failed", build.log("unit")
        assert why in build.log("unit"), build.log("unit")
        assert (build.jobs()["unit"]["soft_failed"], build.states()["after"]) == (False, "skipped")

    with visitor(browser, client, bypass_csp=True) as ada:
        page = ada.open(f"/{excused.path}?view=tests")
        expect(page.get_by_text("1 failed test is in quarantine, and does not")).to_be_visible()
        assert ada.barriers() == []
        page.get_by_role("button", name="End the quarantine of test_draws").click()
        page.locator("summary", has_text="Quarantine").click()
        page.get_by_label("Days").fill("14")
        page.get_by_role("button", name="Quarantine test_draws").click()
        expect(page.get_by_role("button", name="End the quarantine of test_draws")).to_be_visible()
        assert ada.faults == []
    made = next(each for each in daemon.json("test", "quarantined", name) if each["in_force"])

    daemon.command("test", "release", name, made["id"])
    assert built(pipeline, source, "draws").record()["state"] == "failed"
    listed, _ = daemon.json("test", "quarantined", name)
    assert (listed["in_force"], listed["owner"], listed["ended_by"]) == (False, client.email, "root")
    acts = [each["action"] for each in daemon.json("audit", "--limit", "100")]
    assert {"quarantineTest", "releaseTest"} <= set(acts)
