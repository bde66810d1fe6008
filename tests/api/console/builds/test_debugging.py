"""Debugging from the pages of a build and a job, and of a pipeline that was rejected."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from storage import BuildState, JobState, Outcome
from tests import records
from tests.api.console.browser import Browser
from tests.api.world import Account, BuildPath, PipelinePath, steps


@pytest.fixture
def build(pipeline: PipelinePath) -> BuildPath:
    return pipeline.build(pipeline_ir=steps("unit tests"), debug=True)


def fail(build: BuildPath) -> None:
    """End the build's job, whose VM is held."""
    storage, job = build.account.world.storage, build.job().stored
    lease = records.started(storage, job)
    end = (JobState.RUNNING, JobState.FAILED, Outcome(exit_code=1))
    assert storage.jobs.finish(job.id, *end, lease_id=lease.id, billable=True, held_seconds=600)
    storage.builds.move(build.stored.id, build.stored.state, BuildState.FAILED)


def test_a_held_vm_is_shown_with_the_line_to_type(ada: Account, build: BuildPath):
    page = f"/{build.stored.page}"
    running = Browser.of(ada).get(page).text
    assert "The VMs of jobs that fail are held for debugging." in running
    fail(build)
    build.account.world.storage.billing = replace(build.account.world.storage.billing, require_credit=True)
    line = "ci-daemon debug ada-example-org/demo/1 &#39;unit tests&#39;</code>"
    for path in (page, f"{page}/jobs/{build.job().stored.uuid}"):
        shown = Browser.of(ada).get(path).text
        assert "Held for debugging" in shown
        assert line in shown
        assert re.search(r"for [0-9.]+ cents a minute", shown)


def test_a_job_that_goes_on_has_the_line_to_type_for_members(ada: Account, build: BuildPath):
    page = f"/{build.stored.page}/jobs/{build.job().stored.uuid}"
    assert "ci-daemon debug" in Browser.of(ada).get(page).text
    ada.client.simulate_patch(f"{ada.path}/pipelines/demo", json={"visibility": "public"})
    assert "ci-daemon debug" not in Browser(ada.world).get(page).text


def test_a_failed_build_is_rebuilt_with_holds(ada: Account, build: BuildPath):
    fail(build)
    browser, page = Browser.of(ada), f"/{build.stored.page}"
    token = browser.fields(page, f"{page[1:]}/retry")["form_token"]
    for number, debug in ((2, "yes"), (3, "")):
        answered = browser.post(f"{page}/rebuild", {"form_token": token, "debug": debug})
        assert answered.headers["Location"].endswith(f"/builds/{number}")
        made = ada.world.storage.builds.find("ada-example-org", "demo", number)
        assert made is not None
        assert made.debug is (debug == "yes")


def test_an_error_in_json_is_shown_where_it_is(ada: Account, pipeline: PipelinePath):
    pipeline.post(pipeline_ir='{"version": <img src=x>}')
    shown = Browser.of(ada).get("/ada-example-org/pipelines/demo/builds/1").text
    assert "At line 1, column 13 of the pipeline as JSON" in shown
    assert "&lt;img src=x&gt;}\n            ^</pre>" in shown
    assert "<img" not in shown
