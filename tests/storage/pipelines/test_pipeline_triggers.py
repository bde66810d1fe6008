"""Pipelines that follow others: which ends are followed, and that none goes round."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from storage import (
    Build,
    BuildState,
    NewBuild,
    NewPipeline,
    NewPipelineTrigger,
    Pipeline,
    PipelineTrigger,
    Storage,
    TriggerState,
)
from tests.records import new_pipeline
from tests.storage.world import World

FILE = ".hm/ci.yml"


class Following:
    """Pipelines of an organization, which follow others."""

    def __init__(self, world: World) -> None:
        self.storage = world.storage
        self.organization_id = world.pipeline.organization_id

    def pipeline(self, slug: str, after: str | None = None, repository: str = "r", **fields: Any) -> Pipeline:
        new = NewPipeline(slug, slug, repository, "main", source_slug=fields.pop("source_slug", None))
        made = self.storage.pipelines.create(self.organization_id, new)
        if after is not None:
            self.follow(made, after, **fields)
        return made

    def follow(self, pipeline: Pipeline, after: str, state: TriggerState = TriggerState.PASSED) -> None:
        self.storage.pipeline_triggers.declare(pipeline.id, [NewPipelineTrigger(after, state, "main", FILE)])

    def end(self, pipeline: Pipeline, state: BuildState = BuildState.PASSED, **fields: Any) -> Build:
        """Let a new build of a pipeline end; return it."""
        build = self.storage.builds.create_unplanned(pipeline, NewBuild(**{"branch": "main", "commit": "c", **fields}))
        return self.ended(build, pipeline, state)

    def ended(self, build: Build, pipeline: Pipeline, state: BuildState = BuildState.PASSED) -> Build:
        self.storage.builds.move(build.id, BuildState.SCHEDULED, state)
        found = self.storage.builds.get(build.id)
        assert found is not None
        with self.storage.transaction():
            self.storage.pipeline_triggers.follow(found, pipeline)
        return found

    def due(self) -> list[PipelineTrigger]:
        return self.storage.pipeline_triggers.due(100)

    def build_due(self, **fields: Any) -> Build:
        """Make the build of the one trigger that is due."""
        (due,) = self.due()
        pipeline = self.storage.pipelines.by_id(due.pipeline_id)
        assert pipeline is not None
        build = self.storage.builds.create_unplanned(
            pipeline, NewBuild("main", "c", upstream_id=due.upstream_id, **fields)
        )
        assert self.storage.pipeline_triggers.take(due)
        self.storage.pipeline_triggers.built(due, build)
        return build


@pytest.fixture
def following(world: World) -> Following:
    return Following(world)


@pytest.mark.parametrize(
    ("wanted", "state", "fields", "followed"),
    [
        (TriggerState.PASSED, BuildState.PASSED, {}, True),
        (TriggerState.PASSED, BuildState.FAILED, {}, False),
        (TriggerState.FAILED, BuildState.FAILED, {}, True),
        (TriggerState.FAILED, BuildState.PASSED, {}, False),
        (TriggerState.ALWAYS, BuildState.PASSED, {}, True),
        (TriggerState.ALWAYS, BuildState.FAILED, {}, True),
        (TriggerState.ALWAYS, BuildState.CANCELED, {}, False),
        (TriggerState.ALWAYS, BuildState.PASSED, {"branch": "topic"}, False),
        (TriggerState.ALWAYS, BuildState.PASSED, {"from_fork": True}, False),
    ],
)
def test_the_wanted_ends_of_the_default_branch_are_followed(
    following: Following, wanted: TriggerState, state: BuildState, fields: dict[str, Any], *, followed: bool
):
    base = following.pipeline("base")
    following.pipeline("app", after="base", state=wanted)
    build = following.end(base, state, **fields)
    assert [each.upstream_id for each in following.due()] == [build.id] * followed


def test_a_name_in_the_same_repository_goes_before_a_slug(following: Following):
    """Nor is a pipeline of another organization, or a deleted one, ever followed."""
    storage = following.storage
    other = following.pipeline("base", repository="elsewhere")
    sibling = following.pipeline("acme-web-base", source_slug="base")
    following.pipeline("app", after="base")
    following.pipeline("far", after="base", repository="far")
    theirs = new_pipeline(storage, "Others", "eve@example.org")
    names = {each.id: each.slug for each in storage.pipelines.page(following.organization_id, 100, None).rows}
    following.end(other)
    assert [names[each.pipeline_id] for each in following.due()] == ["far"]
    following.end(sibling)
    assert [names[each.pipeline_id] for each in following.due()] == ["app", "far"]
    following.follow(theirs, "base")
    following.end(other)
    assert theirs.id not in {each.pipeline_id for each in following.due()}


def test_of_several_ends_the_last_is_followed_once(following: Following):
    """The next waits for the build that followed; one that is declared again keeps what it waits for."""
    base, app = following.pipeline("base"), following.pipeline("app", after="base")
    following.end(base)
    newest = following.end(base)
    following.follow(app, "base")
    (due,) = following.due()
    assert due.upstream_id == newest.id
    build = following.build_due()
    assert not following.storage.pipeline_triggers.take(due)
    third = following.end(base)
    assert following.due() == []
    following.ended(build, app)
    assert [each.upstream_id for each in following.due()] == [third.id]


def test_no_build_follows_one_that_its_pipeline_led_to(following: Following):
    first = following.pipeline("first", after="third")
    second, third = following.pipeline("second", after="first"), following.pipeline("third", after="second")
    following.end(first)
    for pipeline in (second, third):
        following.ended(following.build_due(), pipeline)
    assert following.due() == []
    (trigger,) = following.storage.pipeline_triggers.of_pipeline(first.id)
    assert trigger.last_error == (
        "a build of this pipeline led to acme/third/1: if another one followed, they would never end"
    )
    following.follow(first, "first")
    following.end(first)
    assert [each.pipeline_id for each in following.due()] == [second.id], "nor one of its own"


def test_a_row_of_builds_that_follow_has_an_end(following: Following):
    pipelines = [following.pipeline("p0")]
    pipelines += [following.pipeline(f"p{n}", after=f"p{n - 1}") for n in range(1, 10)]
    following.end(pipelines[0])
    built = 1
    while following.due():
        following.ended(following.build_due(), pipelines[built])
        built += 1
    assert built == 8
    (trigger,) = following.storage.pipeline_triggers.of_pipeline(pipelines[8].id)
    assert trigger.last_error is not None
    assert trigger.last_error.endswith("is the last of 8 builds that followed one another: no other follows")


def test_triggers_go_with_their_pipeline(following: Following, storage: Storage):
    app = following.pipeline("app", after="base")
    storage.pipelines.delete(app.id)
    assert storage.pipeline_triggers.of_pipeline(app.id) == []


_VERIFIED = {"verified_ref": "refs/heads/main"}


def test_other_organizations_follow_where_they_may(following: Following):
    """Builds whose branch the service has verified alone, until that is taken back."""
    storage = following.storage
    base = following.pipeline("base")
    theirs = new_pipeline(storage, "Others", "eve@example.org")
    following.follow(theirs, "acme/base")
    following.end(base, **_VERIFIED)
    assert following.due() == []
    assert storage.pipelines.named(theirs.organization_id, theirs.id, "acme/base") is None
    allowing = storage.pipelines.update(base.id, followers=("others",))
    following.end(allowing)
    assert following.due() == [], "a member may say that a build is of a branch"
    build = following.end(allowing, **_VERIFIED)
    (due,) = following.due()
    assert (due.pipeline_id, due.upstream_id) == (theirs.id, build.id)
    assert storage.pipelines.named(theirs.organization_id, theirs.id, "acme/base") == storage.pipelines.by_id(base.id)
    assert storage.pipelines.named(theirs.organization_id, theirs.id, "base") is None
    assert not storage.pipelines.may_follow(theirs.organization_id, storage.pipelines.update(base.id, followers=()))
    assert storage.pipelines.named(theirs.organization_id, theirs.id, "acme/base") is None


def test_an_own_pipeline_has_its_whole_name_too(following: Following):
    base = following.pipeline("base")
    app = following.pipeline("app", after="acme/base")
    following.end(base)
    assert [each.pipeline_id for each in following.due()] == [app.id]
    storage = following.storage
    assert storage.pipelines.named(app.organization_id, app.id, "acme/base") == storage.pipelines.by_id(base.id)


def test_organizations_do_not_go_round(following: Following):
    storage = following.storage
    theirs = new_pipeline(storage, "Others", "eve@example.org")
    base = following.pipeline("base", after=f"others/{theirs.slug}")
    following.follow(theirs, "acme/base")
    base = storage.pipelines.update(base.id, followers=("others",))
    theirs = storage.pipelines.update(theirs.id, followers=("acme",))
    following.end(base, **_VERIFIED)
    build = following.build_due(**_VERIFIED)
    following.ended(build, theirs)
    assert following.due() == []
    (trigger,) = storage.pipeline_triggers.of_pipeline(base.id)
    assert "if another one followed, they would never end" in str(trigger.last_error)


def test_the_inputs_of_a_trigger_are_kept(following: Following):
    app = following.pipeline("app")
    new = NewPipelineTrigger("base", TriggerState.PASSED, "main", FILE, {"version": "outputs.package.VERSION"})
    for _ in range(2):
        following.storage.pipeline_triggers.declare(app.id, [new, new])
    (trigger,) = following.storage.pipeline_triggers.of_pipeline(app.id)
    assert trigger.inputs == {"version": "outputs.package.VERSION"}
    following.storage.pipeline_triggers.declare(app.id, [replace(new, inputs={})])
    assert [each.inputs for each in following.storage.pipeline_triggers.of_pipeline(app.id)] == [{}]
