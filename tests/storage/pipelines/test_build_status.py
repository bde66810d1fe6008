from __future__ import annotations

from storage import BuildState, Declaration, DeclaringRepository, NewPipeline, Organization, Storage, User, Visibility
from tests.storage.world import World


def end(world: World, state: BuildState, **fields: str) -> None:
    build = world.build(**fields)
    world.storage.builds.move(build.id, BuildState.SCHEDULED, state)


def test_the_latest_and_the_last_finished_build_are_told_apart(world: World, user: User):
    end(world, BuildState.FAILED)
    end(world, BuildState.PASSED)
    world.build()
    end(world, BuildState.CANCELED, branch="other")

    status = world.storage.build_status.of_branch("acme", "web", None, user.id)

    assert status is not None
    assert (status.latest_state, status.finished_state, status.finished_number) == ("scheduled", "passed", 2)
    assert status.finished_at == world.clock.now()
    other = world.storage.build_status.of_branch("acme", "web", "other", user.id)
    assert other is not None
    assert (other.latest_state, other.finished_number) == ("canceled", 4)


def test_a_closed_organization_has_no_status(storage: Storage, user: User):
    personal = storage.organizations.by_slug(user.personal_org_slug)
    assert personal is not None
    new = NewPipeline("open", "Open", "https://git.example/x/y", "main", visibility=Visibility.PUBLIC)
    storage.pipelines.create(personal.id, new)
    assert storage.build_status.of_branch(personal.slug, "open", None, None) is not None

    storage.accounts.close(user.id)

    assert storage.build_status.of_branch(personal.slug, "open", None, None) is None
    assert storage.build_status.public(10) == []


def test_what_a_repository_no_longer_declares_is_not_listed(storage: Storage, organization: Organization, user: User):
    declared = storage.declarations.register(
        DeclaringRepository(organization.id, "acme/web", "acme/web"), "ci", "main", Declaration("CI", True, ())
    )
    storage.pipelines.update(declared.id, visibility=Visibility.PUBLIC)
    assert [each.pipeline_slug for each in storage.build_status.public(10)] == [declared.slug]
    storage.declarations.follow(DeclaringRepository(organization.id, "acme/web", "acme/web"), {})
    assert storage.build_status.public(10) == storage.build_status.of_reader(user.id, 10) == []


def test_a_list_has_a_limit(storage: Storage, organization: Organization, user: User):
    for name in ("c", "a", "b"):
        new = NewPipeline(name, name, "https://git.example/x/y", "main", visibility=Visibility.PUBLIC)
        storage.pipelines.create(organization.id, new)
    assert [each.pipeline_slug for each in storage.build_status.public(2)] == ["c", "a"]
    assert [each.pipeline_slug for each in storage.build_status.of_reader(user.id, 2)] == ["c", "a"]
