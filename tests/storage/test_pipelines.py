from __future__ import annotations

import pytest

from storage import NewPipeline, Organization, Pipeline, SlugTaken, Storage, Visibility
from tests.storage.world import World, new_job


def test_a_pipeline_keeps_what_its_caller_said(storage: Storage, organization: Organization):
    new = NewPipeline("web", "Web", "git@host:acme/web", "main", "the site", "acme/web", Visibility.PUBLIC, False, True)
    made = storage.pipelines.create(organization.id, new)
    assert storage.pipelines.by_slug(organization.id, "web") == storage.pipelines.by_id(made.id) == made
    assert {name: getattr(made, name) for name in NewPipeline.__dataclass_fields__} == {
        name: getattr(new, name) for name in NewPipeline.__dataclass_fields__
    }
    assert (made.organization_id, made.source_slug, made.fail_fast) == (organization.id, None, True)


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
    assert storage.pipelines.build_count(pipeline.id) == 0
    for _ in range(3):
        world.build(new_job())
    assert storage.pipelines.build_count(pipeline.id) == 3
    assert storage.pipelines.by_slug(pipeline.organization_id, "missing") is None


def test_a_build_fails_fast_where_its_pipeline_or_its_organization_says_so(
    storage: Storage, organization: Organization, pipeline: Pipeline
):
    assert not storage.pipelines.fails_fast(pipeline.id)
    storage.organizations.configure(organization.id, fail_fast=True)
    assert storage.pipelines.fails_fast(pipeline.id)
    storage.organizations.configure(organization.id, fail_fast=False)
    storage.pipelines.set_fail_fast(pipeline.id, fail_fast=True)
    assert storage.pipelines.fails_fast(pipeline.id)
    storage.pipelines.set_fail_fast(pipeline.id, fail_fast=False)
    assert not storage.pipelines.fails_fast(pipeline.id)
