from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from storage import (
    BuildState,
    JobState,
    NewBuild,
    NewCacheEntry,
    NewPipeline,
    Organization,
    Pipeline,
    PipelineBusy,
    PipelineGone,
    SecretScope,
    SlugTaken,
    Storage,
    Visibility,
)
from storage.database.connection import Database
from storage.database.schema import migrate, migrations
from tests.clock import ManualClock
from tests.records import new_job
from tests.storage.world import World


def test_a_pipeline_keeps_its_callers_fields(storage: Storage, organization: Organization):
    new = NewPipeline(
        "web", "Web", "git@host:acme/web", "main", "the site", "acme/web", Visibility.PUBLIC, False, True, "site"
    )
    made = storage.pipelines.create(organization.id, new)
    assert storage.pipelines.by_slug(organization.id, "web") == storage.pipelines.by_id(made.id) == made
    assert {name: getattr(made, name) for name in NewPipeline.__dataclass_fields__} == {
        name: getattr(new, name) for name in NewPipeline.__dataclass_fields__
    }
    assert made.organization_id == organization.id


def test_a_slug_is_taken_within_its_organization_alone(storage: Storage, pipeline: Pipeline, world: World):
    with pytest.raises(SlugTaken, match='"web" already'):
        storage.pipelines.create(pipeline.organization_id, NewPipeline("web", "Other", "r", "main"))
    assert world.other_pipeline("Other").slug == "web"


def test_pages_show_them_oldest_first(storage: Storage, pipeline: Pipeline, world: World):
    world.other_pipeline("Other")
    for name in ("b", "a", "c"):
        storage.pipelines.create(pipeline.organization_id, NewPipeline(name, name, "r", "main"))
    first = storage.pipelines.page(pipeline.organization_id, 3, None)
    rest = storage.pipelines.page(pipeline.organization_id, 3, first.next_key)
    assert [row.slug for row in first.rows + rest.rows] == ["web", "b", "a", "c"]
    assert rest.next_key is None


def test_builds_are_counted(storage: Storage, pipeline: Pipeline, world: World):
    assert storage.pipelines.by_id(pipeline.id).build_count == 0
    for _ in range(3):
        world.build(new_job())
    assert storage.pipelines.by_id(pipeline.id).build_count == 3
    assert storage.pipelines.by_slug(pipeline.organization_id, "missing") is None


def test_a_build_fails_fast_by_its_pipeline_or_organization(
    storage: Storage, organization: Organization, pipeline: Pipeline
):
    assert not storage.pipelines.fails_fast(pipeline.id)
    storage.organizations.configure(organization.id, fail_fast=True)
    assert storage.pipelines.fails_fast(pipeline.id)
    storage.organizations.configure(organization.id, fail_fast=False)
    storage.pipelines.update(pipeline.id, fail_fast=True)
    assert storage.pipelines.fails_fast(pipeline.id)
    storage.pipelines.update(pipeline.id, fail_fast=False)
    assert not storage.pipelines.fails_fast(pipeline.id)


def test_a_change_touches_what_it_names_alone(storage: Storage, pipeline: Pipeline, world: World):
    other = storage.pipelines.create(pipeline.organization_id, NewPipeline("api", "Api", "r", "main"))
    changed = storage.pipelines.update(pipeline.id, name="Site", visibility=Visibility.PUBLIC, description=None)
    assert storage.pipelines.by_id(pipeline.id) == changed
    assert (changed.name, changed.visibility, changed.slug) == ("Site", Visibility.PUBLIC, "web")
    assert (changed.repository, changed.default_branch) == (pipeline.repository, pipeline.default_branch)
    assert storage.pipelines.by_id(other.id) == other
    assert storage.pipelines.update(pipeline.id) == changed


def test_the_oldest_pipeline_of_a_source_is_found_in_any_case(
    storage: Storage, organization: Organization, world: World
):
    made = [
        storage.pipelines.create(
            organization.id, NewPipeline(slug, slug, "r", "main", repo_name=repo, source_slug="ci")
        )
        for slug, repo in (("a", "Acme/Web"), ("b", "acme/web"), ("c", "acme/other"))
    ]

    def found(repo_name: str, source_slug: str) -> Pipeline | None:
        return storage.pipelines.by_source(organization.id, repo_name, source_slug)

    assert found("ACME/wEB", "ci") == made[0]
    assert found("acme/web", "CI") is found("acme", "ci") is found("acme/we_", "ci") is None
    assert storage.pipelines.by_source(world.other_pipeline("Other").organization_id, "acme/web", "ci") is None
    storage.pipelines.delete(made[0].id)
    assert found("Acme/Web", "ci") == made[1]


def test_a_deleted_pipeline_and_its_builds_are_found_nowhere(storage: Storage, pipeline: Pipeline, world: World):
    build = world.build()
    assert storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.PASSED)
    organization = storage.organizations.by_id(pipeline.organization_id)
    assert organization is not None
    storage.pipelines.delete(pipeline.id)
    storage.pipelines.delete(pipeline.id)
    assert storage.pipelines.by_id(pipeline.id) is None
    assert storage.pipelines.by_slug(organization.id, "web") is None
    assert storage.pipelines.page(organization.id, 10, None).rows == ()
    assert storage.builds.find(organization.slug, "web", 1) is None
    assert storage.builds.get(build.id) is storage.builds.by_uuid(build.uuid) is None
    assert storage.builds.by_number(pipeline.id, 1) is None
    assert storage.builds.page(pipeline.id, 10, None).rows == ()
    with pytest.raises(PipelineGone):
        storage.pipelines.update(pipeline.id, name="Back")
    with pytest.raises(PipelineGone):
        storage.secrets.put(_scope(pipeline), "TOKEN", "hush")


def test_a_deleted_pipelines_slug_is_free_and_counts_from_one(storage: Storage, pipeline: Pipeline, world: World):
    first = world.build()
    assert storage.builds.move(first.id, BuildState.SCHEDULED, BuildState.PASSED)
    storage.pipelines.delete(pipeline.id)
    again = storage.pipelines.create(pipeline.organization_id, NewPipeline("web", "Web", "r", "main"))
    assert world.build(pipeline=again).number == 1
    assert storage.pipelines.by_id(again.id).build_count == 1


def test_what_builds_have_cost_stays_when_their_pipeline_goes(storage: Storage, pipeline: Pipeline, world: World):
    build = world.build()
    job = world.job(build)
    lease = world.start(job)
    world.clock.advance(seconds=3600)
    assert world.finish(job, lease)
    world.finish_build(build)
    balance = storage.ledger.balance(pipeline.organization_id)
    assert balance < 0
    entries = storage.ledger.page(pipeline.organization_id, 10, None)
    storage.pipelines.delete(pipeline.id)
    assert storage.ledger.balance(pipeline.organization_id) == balance
    assert storage.ledger.page(pipeline.organization_id, 10, None) == entries


def test_a_pipelines_cache_and_secrets_go_with_it_and_no_others(storage: Storage, pipeline: Pipeline, world: World):
    other = world.other_pipeline("Other")
    for owner in (pipeline, other):
        build = world.build(pipeline=owner)
        job = world.job(build)
        storage.snapshots.add(f"disk-{owner.id}", job.id, "sandbox")
        assert storage.cache.store(NewCacheEntry(f"name-{owner.id}", owner.id, "key", "debian:12", f"disk-{owner.id}"))
        storage.secrets.put(_scope(owner), "TOKEN", "hush")
        assert storage.jobs.move(job.id, JobState.SCHEDULED, JobState.CANCELED)
        assert storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.CANCELED)
    everywhere = SecretScope(pipeline.organization_id)
    storage.secrets.put(everywhere, "SHARED", "hush")
    storage.pipelines.delete(pipeline.id)
    assert [entry.name for entry in storage.cache.entries()] == [f"name-{other.id}"]
    assert [snapshot.name for snapshot in storage.snapshots.unneeded()] == [f"disk-{pipeline.id}"]
    assert storage.secrets.names(_scope(pipeline)) == []
    assert [secret.name for secret in storage.secrets.names(everywhere)] == ["SHARED"]
    assert [secret.name for secret in storage.secrets.names(_scope(other))] == ["TOKEN"]


def _scope(pipeline: Pipeline) -> SecretScope:
    return SecretScope(pipeline.organization_id, pipeline.id)


def test_a_pipeline_with_unfinished_builds_stays(storage: Storage, pipeline: Pipeline, world: World):
    build = world.build()
    world.build(pipeline=world.other_pipeline("Other"))
    with pytest.raises(PipelineBusy, match="1 of its builds are not finished"):
        storage.pipelines.delete(pipeline.id)
    assert storage.pipelines.by_id(pipeline.id) == replace(pipeline, build_count=1)
    assert storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.FAILED)
    storage.pipelines.delete(pipeline.id)


def test_a_deleted_pipeline_takes_no_build_and_keeps_no_archive(storage: Storage, pipeline: Pipeline):
    storage.pipelines.delete(pipeline.id)
    new = NewBuild("main", "c0ffee", source_archive=b"archive")
    with pytest.raises(PipelineGone, match='"web" was deleted'):
        storage.builds.create(pipeline, new, [new_job()])
    with pytest.raises(PipelineGone):
        storage.builds.create_rejected(pipeline, new, "invalid_ir", "no")
    assert storage.sources.all() == []


def test_of_a_build_and_a_deletion_at_once_one_is_refused(storage: Storage, organization: Organization):
    for round_ in range(20):
        pipeline = storage.pipelines.create(organization.id, NewPipeline(f"p{round_}", "P", "r", "main"))
        ready = threading.Barrier(2)
        with ThreadPoolExecutor(2) as threads:
            create = partial(storage.builds.create, pipeline, NewBuild("main", "c0ffee"), [new_job()])
            delete = partial(storage.pipelines.delete, pipeline.id)
            refusals = list(threads.map(partial(_refusal, ready), (create, delete)))
        assert refusals in ([PipelineGone, None], [None, PipelineBusy])
        assert (storage.pipelines.by_id(pipeline.id) is None) == (refusals[0] is PipelineGone)


def _refusal(ready: threading.Barrier, act: Callable[[], object]) -> type[Exception] | None:
    ready.wait()
    try:
        act()
    except (PipelineBusy, PipelineGone) as error:
        return type(error)
    return None


def test_pipelines_from_before_deletion_was_known_are_kept(tmp_path: Path, clock: ManualClock):
    database = Database(tmp_path / "ci-daemon.sqlite3", clock)
    migrate(database, [step for step in migrations() if step.number < 10])
    database.execute("INSERT INTO organizations (uuid, slug, name, url, created_at) VALUES ('o', 'acme', 'A', '', 1)")
    database.execute(
        "INSERT INTO pipelines"
        " VALUES (7, 'p', 1, 'web', 'Web', 'r', 'main', 'public', 0, NULL, 'Acme/Web', 's', 1, 4, 5)"
    )
    database.execute(
        "INSERT INTO builds (uuid, external_id, pipeline_id, number, state, source, cancel_requested, has_source,"
        " source_sha256, created_at) VALUES ('b', 'e', 7, 4, 'running', 'api', 0, 0, '', 1)"
    )
    migrate(database, migrations())
    assert database.execute("SELECT * FROM pipelines").fetchall() == [
        (
            7,
            "p",
            1,
            "web",
            "Web",
            "r",
            "main",
            "public",
            0,
            None,
            "Acme/Web",
            "s",
            1,
            4,
            5,
            None,
            None,
            1,
            None,
            None,
            0,
            "[]",
            None,
            None,
        )
    ]
    assert database.execute("PRAGMA foreign_key_check").fetchall() == []
    assert "pipelines (id)" in database.execute("SELECT sql FROM sqlite_schema WHERE name = 'builds'").get
    database.close()
