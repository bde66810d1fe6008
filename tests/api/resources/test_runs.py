"""Commands on forks, as the API takes and refuses them; no VM is made here."""

from __future__ import annotations

import json
from typing import Any

import pytest
from falcon import testing

from actors import EngineBusy
from actors.forks import DiskGone, ForkRun, ListFolder, PatchRefused, RunFailed, RunOutcome, TakeFile
from storage import Role, SecretScope
from tests.api.console.browser import Browser
from tests.api.world import Account, BuildPath, PipelinePath, World, steps

STEP = {"key": "one", "cmd": "make", "runner_args": {"secrets": ["TOKEN"]}}
WITH_SECRET = json.dumps({"version": "0", "graph": {"nodes": [{"step": STEP, "env": {}}], "edges": []}})


@pytest.fixture
def build(pipeline: PipelinePath) -> BuildPath:
    return pipeline.build(pipeline_ir=steps("one"))


def run(build: BuildPath, by: Account, **body: Any) -> testing.Result:
    path = f"{build.path}/jobs/{build.job().stored.uuid}/runs"
    return by.client.simulate_post(path, json=body)


def code(answered: testing.Result) -> tuple[int, str]:
    return answered.status_code, answered.json["error"]["code"]


def test_a_run_is_what_was_asked_for_and_by_whom(world: World, ada: Account, build: BuildPath):
    world.engine.run_outcome = RunOutcome(3, "out\n", 7, timed_out=True, seconds=1.5)
    answered = run(build, ada, command="ls", patch="--- a\n", before=True, env={"A": "b"}, timeout_seconds=5)
    assert answered.json == {"exit_code": 3, "output": "out\n", "left_out": 7, "timed_out": True, "seconds": 1.5}
    assert run(build, ada).status_code == 200
    job = build.job().stored.id
    assert world.engine.runs == [
        (job, ForkRun("ls", "--- a\n", {"A": "b"}, before=True, seconds=5), ada.user.email),
        (job, ForkRun(), ada.user.email),
    ]


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (DiskGone("gone"), (410, "disk_not_kept")),
        (PatchRefused("line 3"), (422, "patch_refused")),
        (RunFailed("its VM is lost"), (409, "run_failed")),
        (EngineBusy("no room"), (503, "busy")),
    ],
)
def test_what_the_engine_refuses_is_said(
    world: World, ada: Account, build: BuildPath, failure: Exception, expected: tuple[int, str]
):
    world.engine.run_outcome = failure
    answered = run(build, ada)
    assert code(answered) == expected
    assert str(failure) in answered.json["error"]["message"]


@pytest.mark.parametrize("body", [{"timeout_seconds": 0}, {"timeout_seconds": 601}, {"command": " "}, {"patch": ""}])
def test_bounds_are_checked_first(world: World, ada: Account, build: BuildPath, body: dict[str, Any]):
    assert code(run(build, ada, **body)) == (422, "invalid_body")
    assert world.engine.runs == []


def test_a_disk_that_may_hold_limited_secrets_is_for_admins(world: World, ada: Account, pipeline: PipelinePath):
    grace = world.sign_up("grace@example.org")
    build = pipeline.build(pipeline_ir=WITH_SECRET)
    grace.join(ada, Role.MEMBER)
    scope = SecretScope(build.stored.organization_id)
    world.storage.secrets.put(scope, "TOKEN", "hunter2-and-more")
    assert run(build, grace).status_code == 200
    world.storage.secrets.put(scope, "TOKEN", "hunter2-and-more", {"branches": ("main",)})
    assert code(run(build, grace)) == (403, "insufficient_org_role")
    assert run(build, ada).status_code == 200


def test_files_are_shown_and_saved_from_the_page_of_a_job(world: World, ada: Account, build: BuildPath):
    job = build.job().stored
    world.storage.snapshots.add("the disk", job.id, "sandbox")
    world.storage.kept_disks.keep("the disk", build.stored)
    browser, page = Browser.of(ada), build.path.removeprefix("/api/v0/organizations") + f"/jobs/{job.uuid}"
    shown = browser.post(f"{page}/files", {**browser.fields(page, f"{page[1:]}/files"), "path": "out", "before": "yes"})
    assert shown.status_code == 200, shown.text
    assert "junit.xml" in shown.text
    assert "before its command" in shown.text
    fields = {"form_token": browser.fields(page, f"{page[1:]}/files")["form_token"], "path": "out/junit.xml"}
    saved = browser.post(f"{page}/files/content", fields)
    assert (saved.status_code, saved.text) == (200, "hello")
    assert 'attachment; filename="junit.xml"' in saved.headers["Content-Disposition"]
    assert [(each[1], each[2]) for each in world.engine.runs] == [
        (ListFolder("out", before=True), ada.user.email),
        (TakeFile("out/junit.xml"), ada.user.email),
    ]
    grace = world.sign_up("grace@example.org")
    refused = Browser.of(grace).post(f"{page}/files/content", fields)
    assert refused.status_code in {403, 404}


def test_no_file_of_a_guarded_disk_is_for_members(world: World, ada: Account, pipeline: PipelinePath):
    grace = world.sign_up("grace@example.org")
    build = pipeline.build(pipeline_ir=WITH_SECRET)
    grace.join(ada, Role.MEMBER)
    world.storage.secrets.put(
        SecretScope(build.stored.organization_id), "TOKEN", "hunter2-and-more", {"branches": ("main",)}
    )
    for below in ("files", "files/content"):
        path = f"{build.path}/jobs/{build.job().stored.uuid}/{below}"
        assert code(grace.client.simulate_post(path, json={"path": "a"})) == (403, "insufficient_org_role")
        assert ada.client.simulate_post(path, json={"path": "a"}).status_code == 200
    assert len(world.engine.runs) == 2
