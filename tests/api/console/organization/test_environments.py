"""The page of environments, and the gates of jobs on the pages of builds and jobs."""

from __future__ import annotations

import pytest

from storage import Job, JobState, NewBuild, NewEnvironment, Role, Storage
from tests.api.console.browser import Browser, main_of
from tests.api.world import HELLO, Account, PipelinePath
from tests.records import new_job

PAGE = "/ada-example-org/environments"
AT = "ada-example-org/environments"


def deploys(pipeline: PipelinePath, storage: Storage, commit: str = "c0ffee") -> Job:
    """Make a build whose job waits at the gate of production."""
    found = storage.pipelines.by_slug(pipeline.account.org_id, "demo")
    assert found is not None
    new = NewBuild("main", commit, pipeline_ir=HELLO)
    build = storage.builds.create(found, new, [new_job("deploy", environment="production")])
    (job,) = storage.jobs.of_build(build.id)
    storage.gates.ask(job.id, 600)
    return job


@pytest.fixture
def production(ada: Account, storage: Storage) -> None:
    storage.environments.create(ada.org_id, NewEnvironment("production", "https://shop.example.org", ("owner",)))


def test_an_admin_makes_changes_and_deletes_an_environment(ada: Account, storage: Storage):
    browser = Browser.of(ada)
    made = browser.send(PAGE, f"{AT}/create", name="production", approvers="admin, grace@example.org", hours="2")
    assert made.headers["Location"].endswith(PAGE)
    stored = storage.environments.named(ada.org_id, "production")
    assert stored is not None
    assert (stored.approvers, stored.not_author) == (("admin", "grace@example.org"), True)
    assert (stored.gate_seconds, stored.url) == (7200, None)
    fields = browser.fields(PAGE, f"{AT}/production/update")
    assert (fields["approvers"], fields["hours"]) == ("admin, grace@example.org", "2")
    del fields["not_author"]
    browser.post(f"/{AT}/production/update", fields | {"url": "https://shop.example.org"})
    stored = storage.environments.named(ada.org_id, "production")
    assert stored is not None
    assert (stored.not_author, stored.url) == (False, "https://shop.example.org")
    assert '<a href="https://shop.example.org" rel=' in browser.get(PAGE).text
    browser.send(PAGE, f"{AT}/production/delete")
    assert storage.environments.named(ada.org_id, "production") is None


@pytest.mark.usefixtures("production")
def test_members_look_and_change_nothing(ada: Account, bob: Account, storage: Storage):
    assert Browser.of(bob).get(PAGE).status_code == 404
    bob.join(ada, Role.MEMBER)
    browser = Browser.of(bob)
    shown = browser.get(PAGE).text
    assert "production" in shown
    assert f"{AT}/production/delete" not in shown
    token = browser.fields("/account", "account/profile")["form_token"]
    assert browser.post(f"/{AT}/production/delete", {"form_token": token}).status_code == 403
    assert storage.environments.named(ada.org_id, "production") is not None


@pytest.mark.parametrize(("word", "state"), [("approve", "approved"), ("reject", "rejected")])
@pytest.mark.usefixtures("production")
def test_a_job_is_answered_on_its_page(ada: Account, pipeline: PipelinePath, storage: Storage, word: str, state: str):
    job, browser = deploys(pipeline, storage), Browser.of(ada)
    build = "ada-example-org/pipelines/demo/builds/1"
    waits = main_of(browser.get(f"/{build}"))
    assert "Waits for approval" in waits
    assert "waiting for approval to deploy to &#34;production&#34;" in waits
    here = f"{build}/jobs/{job.uuid}"
    fields = browser.fields(f"/{here}", f"{here}/approve")
    answered = browser.post(f"/{here}/{word}", fields | {"reason": "<b>seen</b>"})
    assert answered.headers["Location"].endswith(here)
    gate = storage.gates.of_job(job.id)
    assert gate is not None
    assert (gate.state, gate.decided_by, gate.reason) == (state, ada.email, "<b>seen</b>")
    shown = browser.get(f"/{here}").text
    assert f"{ada.email} {state} it" in shown
    assert "<b>seen</b>" not in shown
    assert f"{here}/approve" not in shown


@pytest.mark.usefixtures("production")
def test_strangers_see_a_public_gate_but_no_form(ada: Account, pipeline: PipelinePath, storage: Storage):
    ada.client.simulate_patch(pipeline.path, json={"visibility": "public"})
    job = deploys(pipeline, storage)
    here = f"/ada-example-org/pipelines/demo/builds/1/jobs/{job.uuid}"
    shown = ada.world.anonymous.simulate_get(here)
    assert shown.status_code == 200
    assert "Gate of production" in shown.text
    assert "/approve" not in shown.text


@pytest.mark.usefixtures("production")
def test_an_environment_is_rolled_back_by_one_click(ada: Account, pipeline: PipelinePath, storage: Storage):
    browser = Browser.of(ada)
    for commit in ("c1", "c2"):
        job = deploys(pipeline, storage, commit)
        storage.gates.decide(job.id, approved=True, by="grace@example.org", reason=None)
        assert storage.jobs.move(job.id, JobState.PENDING, JobState.SCHEDULED)
        assert storage.jobs.move(job.id, JobState.SCHEDULED, JobState.PASSED)
    shown = browser.get(PAGE).text
    assert shown.count("Roll production back to ") == 1
    assert "demo/2 deploy" in shown
    back = browser.send(PAGE, f"{AT}/production/rollback")
    assert back.headers["Location"].endswith("/ada-example-org/pipelines/demo/builds/3")
    assert ada.client.simulate_get(f"{pipeline.path}/builds/3").json["rebuild_of"] == 1
