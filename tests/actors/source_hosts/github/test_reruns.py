"""Builds asked for again at a host: each once a delivery, and never more than the first build was."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from actors.addresses import Address
from actors.messages import BuildCreated
from actors.repositories.commit_builds import CommitParts
from actors.repositories.reruns import Reruns
from actors.settings import JobSettings, LiveSettings, PoolSettings
from storage import Build, BuildSettings, BuildState, NewBuild, NewOrigin, NewPipeline, OriginEvent, Storage
from tests.actors.conftest import settings_with
from tests.actors.source_hosts.github.conftest import App
from tests.records import new_job

ONE_STEP = json.dumps({"version": "0", "steps": [{"type": "command", "key": "only", "cmd": "true"}]})
COMMIT = "c" * 40


class Told(Address[BuildCreated]):
    """A root that keeps what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.builds: list[int] = []

    def post(self, message: BuildCreated) -> None:
        self.builds.append(message.build_id)


@pytest.fixture
def root() -> Told:
    return Told()


@pytest.fixture
def reruns(app: App, root: Told) -> Reruns:
    app.bound()
    settings = LiveSettings(settings_with(PoolSettings(), JobSettings()))
    unused: Any = None
    return Reruns(CommitParts(app.storage, unused, unused, settings, root, {"github": app.host}))


def ended(app: App, slug: str = "web", ref: str = "refs/heads/main", **fields: Any) -> Build:
    """Return a build that failed, whose check run at GitHub has the id 100 and its row's."""
    stored, repository = app.storage, app.repositories()[0]
    pipeline = stored.pipelines.by_slug(app.organization_id, slug) or stored.pipelines.create(
        app.organization_id, NewPipeline(slug, slug, "acme/web", "main")
    )
    new = NewBuild("main", COMMIT, "Try", source="webhook", pipeline_ir=ONE_STEP, env={"A": "1"}, **fields)
    with stored.transaction():
        build = stored.builds.create(pipeline, new, [new_job("only")])
        origin = NewOrigin(repository.id, OriginEvent.PUSH, ref, actor="ada", author_email="a@b.org")
        stored.build_origins.record(build.id, origin, reports=True)
        stored.build_origins.reported(build.id, BuildState.FAILED, f"{100 + build.id}")
    stored.builds.move(build.id, build.state, BuildState.FAILED)
    return build


def ask(app: App, reruns: Reruns, event: str, delivery_id: str = "d1", **payload: Any) -> None:
    body = {"action": "rerequested", "sender": {"login": "ben"}, **payload}
    repository = app.repositories()[0]
    app.storage.deliveries.receive("github", event, delivery_id, repository, json.dumps(body).encode())
    assert reruns.process(repository, app.storage.deliveries.pending(repository.id)) == []
    assert app.storage.deliveries.pending(repository.id) == []


def test_a_check_run_is_run_again_once(app: App, reruns: Reruns, root: Told):
    first = ended(app)
    for _ in range(2):  # the second is the same delivery, and not stored
        ask(app, reruns, "check_run", check_run={"id": 100 + first.id})
    (again,) = root.builds
    build, origin = app.storage.builds.get(again), app.storage.build_origins.get(again)
    assert build is not None
    assert origin is not None
    assert (build.commit, build.branch, build.rebuild_of, build.source) == (COMMIT, "main", first.number, "webhook")
    assert app.storage.builds.env(again) == {"A": "1"}
    assert (origin.actor, origin.ref, origin.author_email) == ("ben", "refs/heads/main", "a@b.org")
    assert origin.report_id is None
    assert [each.build_id for each in app.storage.build_origins.due(10)] == [again]
    ask(app, reruns, "check_run", "d2", check_run={"id": 100 + first.id})
    assert len(root.builds) == 2


def test_a_suite_runs_the_latest_build_of_each_pipeline(app: App, reruns: Reruns, root: Told):
    builds = [ended(app), ended(app), ended(app, "docs")]
    ask(app, reruns, "check_suite", check_suite={"head_sha": COMMIT})
    repeated = [app.storage.builds.get(each) for each in root.builds]
    assert [(each.pipeline_slug, each.rebuild_of) for each in repeated if each] == [("web", 2), ("docs", 1)]
    ask(app, reruns, "check_suite", "d2", check_suite={"head_sha": "d" * 40})
    assert len(root.builds) == len(builds) - 1


def test_the_check_of_a_commit_runs_all_its_pipelines(app: App, reruns: Reruns, root: Told):
    ended(app)
    ended(app, "docs")
    repository = app.repositories()[0]
    app.storage.commit_checks.look(repository.id, COMMIT)
    app.storage.commit_checks.reported(app.storage.commit_checks.due(1)[0], "failed", "Failed: web", "7")
    ask(app, reruns, "check_run", check_run={"id": 7})
    repeated = [app.storage.builds.get(each) for each in root.builds]
    assert [(each.pipeline_slug, each.rebuild_of) for each in repeated if each] == [("web", 1), ("docs", 1)]


def test_a_build_that_runs_is_not_run_again(app: App, reruns: Reruns, root: Told):
    build = ended(app)
    ask(app, reruns, "check_run", check_run={"id": 100 + build.id})
    ask(app, reruns, "check_suite", "d2", check_suite={"head_sha": COMMIT})
    assert len(root.builds) == 1


def test_a_build_of_a_stranger_stays_one(app: App, reruns: Reruns, root: Told):
    first = ended(app, untrusted_origin="pull/1/7", approval_reason="eve is no member")
    ask(app, reruns, "check_run", check_run={"id": 100 + first.id})
    again = app.storage.builds.get(root.builds[0])
    assert again is not None
    assert (again.untrusted_origin, again.approval_reason) == ("pull/1/7", "eve is no member")


def test_what_is_gone_is_passed_over(
    app: App,
    reruns: Reruns,
    root: Told,
    storage: Storage,
):
    build = ended(app)
    ask(app, reruns, "check_run", check_run={"id": 1})
    storage.pipelines.delete(build.pipeline_id)
    ask(app, reruns, "check_run", "d2", check_run={"id": 100 + build.id})
    assert root.builds == []


def test_without_credit_it_fails_and_says_why(app: App, reruns: Reruns, root: Told):
    build = ended(app)
    app.storage.billing = replace(app.storage.billing, require_credit=True)
    ask(app, reruns, "check_run", check_run={"id": 100 + build.id})
    assert root.builds == []
    rejected = app.storage.builds.latest(build.pipeline_id, "main")
    assert rejected is not None
    assert (rejected.state, rejected.error_code) == (BuildState.FAILED, "billing_insufficient_balance")
    assert app.storage.build_origins.due(10)[0].build_id == rejected.id


def test_a_suite_runs_the_builds_of_all_events_of_a_commit(app: App, reruns: Reruns, root: Told):
    """One of them that failed would keep the commit from passing for ever."""
    ended(app)
    ended(app, ref="refs/heads/release")
    ended(app, ref="refs/heads/release")
    ask(app, reruns, "check_suite", check_suite={"head_sha": COMMIT})
    repeated = [app.storage.builds.get(each) for each in root.builds]
    assert [each.rebuild_of for each in repeated if each] == [1, 3]


def test_it_waits_while_too_many_builds_have_not_ended(app: App, reruns: Reruns, root: Told):
    build, running = ended(app), ended(app)
    app.storage.retries.begin(running, BuildState.SCHEDULED, (), {})
    app.storage.build_room.settings = BuildSettings(max_unfinished=1)
    ask(app, reruns, "check_run", check_run={"id": 100 + build.id})
    assert root.builds == []
    (waits,) = app.storage.deliveries.postponed(app.repositories()[0].id)
    assert waits.last_error == (
        "1 builds of the organization have not ended, of 1 at most: it waits until some have ended"
    )
