"""Pipelines as their repositories declare them, and repositories of one name."""

from __future__ import annotations

import pytest

from storage import (
    Declaration,
    DeclaringRepository,
    NewHostConnection,
    NewPipeline,
    RemoteRepository,
    Storage,
)
from tests.storage.world import World

CI = Declaration("CI", allow_manual=True, triggers=())
ONE, OTHER = "https://git.example.org/one/sub/repo.git", "https://git.example.org/other/sub/repo.git"


def tree(world: World, repo_name: str) -> DeclaringRepository:
    """Return a repository as a working tree knows it."""
    return world.storage.declarations.named(world.pipeline.organization_id, repo_name)


def connected(world: World, url: str) -> DeclaringRepository:
    """Return a repository that is connected."""
    organization_id = world.pipeline.organization_id
    if world.storage.repositories.find(organization_id, url) is None:
        world.storage.repositories.connect(organization_id, url, "sub/repo", 60)
    return DeclaringRepository(organization_id, "sub/repo", url)


def test_pipelines_are_archived_and_return_with_declarations(storage: Storage, world: World):
    declared = Declaration("CI", allow_manual=False, triggers=({"event": "push"},))
    organization_id = world.pipeline.organization_id
    made = storage.declarations.register(tree(world, "a/b"), "c i", "main", declared)
    assert (made.slug, made.name, made.allow_manual, made.source_slug) == ("a-b-c-i", "CI", False, "c i")
    assert storage.declarations.get(made.id) == declared
    storage.declarations.follow(tree(world, "A/B"), {})
    assert storage.declarations.archived(made.id)
    assert made not in storage.pipelines.page(organization_id, 10, None).rows
    assert storage.pipelines.by_source(organization_id, "a/b", "c i") is None
    assert storage.declarations.register(tree(world, "a/b"), "c i", "main", declared) == made
    assert storage.pipelines.by_source(organization_id, "a/b", "c i") == made


def test_a_changed_declaration_keeps_fields_set_by_hand(storage: Storage, world: World):
    made = storage.declarations.register(tree(world, "a/b"), "ci", "main", CI)
    storage.pipelines.update(made.id, name="By hand")
    for allow_manual in (False, True):
        storage.declarations.follow(
            tree(world, "a/b"), {"ci": Declaration("CI", allow_manual=allow_manual, triggers=())}
        )
        now = storage.pipelines.by_id(made.id)
        assert now is not None
        assert (now.name, now.allow_manual) == ("By hand", allow_manual)


def test_a_pipeline_that_was_never_declared_is_left_alone(storage: Storage, world: World):
    storage.pipelines.update(world.pipeline.id, repo_name="a/b", source_slug="mine")
    storage.declarations.follow(tree(world, "a/b"), {})
    assert not storage.declarations.archived(world.pipeline.id)


def test_a_slug_that_is_taken_gets_a_number(storage: Storage, world: World):
    made = [
        storage.declarations.register(tree(world, repo_name), source_slug, "main", CI)
        for repo_name, source_slug in (("Acme/Demo", "ci"), ("acme-demo/ci", "?"), ("acme/demo-ci", "!"))
    ]
    assert [each.slug for each in made] == ["acme-demo-ci", "acme-demo-ci-2", "acme-demo-ci-3"]


def test_two_repositories_never_meet_in_one_pipeline(storage: Storage, world: World):
    names = ("acme/one", "acme/two", "other/one", "ACME/one")
    slugs = [storage.declarations.register(tree(world, each), "ci", "main", CI).slug for each in names]
    assert slugs == ["acme-one-ci", "acme-two-ci", "other-one-ci", "acme-one-ci"]
    assert storage.pipelines.by_slug(world.pipeline.organization_id, "ci") is None


def test_a_pipeline_that_is_known_keeps_its_slug(storage: Storage, world: World):
    storage.pipelines.update(world.pipeline.id, repo_name="Acme/One", source_slug="ci")
    found = storage.declarations.register(tree(world, "acme/one"), "ci", "main", CI)
    assert (found.id, found.slug) == (world.pipeline.id, world.pipeline.slug)


def test_repositories_of_one_name_have_pipelines_of_their_own(storage: Storage, world: World):
    one, other = connected(world, ONE), connected(world, OTHER)
    first = storage.declarations.register(one, "ci", "main", CI)
    assert storage.declarations.claim(other, "ci") is None
    second = storage.declarations.register(other, "ci", "main", CI)
    assert (first.slug, second.slug) == ("sub-repo-ci", "sub-repo-ci-2")
    assert [storage.declarations.claim(each, "ci") for each in (one, other)] == [first, second]
    assert [each.id for each, _ in storage.declarations.of_repository(other)] == [second.id]
    storage.declarations.follow(other, {})
    assert [storage.declarations.archived(each.id) for each in (first, second)] == [False, True]
    for each, url in ((first, ONE), (second, OTHER)):
        found = storage.repositories.of_pipeline(each)
        assert found is not None
        assert found.url == url


def test_the_first_to_push_gets_the_pipeline_of_a_working_tree(storage: Storage, world: World):
    of_tree = storage.declarations.register(tree(world, "sub/repo"), "ci", "main", CI)
    one, other = connected(world, ONE), connected(world, OTHER)
    claimed = storage.declarations.claim(one, "ci")
    assert claimed is not None
    assert (claimed.id, claimed.repository) == (of_tree.id, ONE)
    assert storage.declarations.claim(other, "ci") is None
    assert tree(world, "sub/repo") == one


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("https://git.example.org/one/sub/repo", True),
        ("git@GIT.example.org:one/sub/repo.git", True),
        ("ssh://git@git.example.org:2222/one/sub/repo/", True),
        (OTHER, False),
        ("https://elsewhere.example.org/one/sub/repo", False),
        ("/srv/git/sub/repo.git", False),
    ],
)
def test_a_pipeline_is_found_by_its_clone_url(storage: Storage, world: World, address: str, found: bool):
    new = NewPipeline("mine", "Mine", address, "main", repo_name="sub/repo", source_slug="ci")
    mine = storage.pipelines.create(world.pipeline.organization_id, new)
    claimed = storage.declarations.claim(connected(world, ONE), "ci")
    assert (claimed and claimed.id) == (mine.id if found else None)


def test_the_clone_url_of_another_repository_is_never_taken(storage: Storage, world: World):
    """One server by two names of protocols, or two servers: only their owner knows."""
    one, other = (
        connected(world, "https://git.example.org:3000/sub/repo"),
        connected(world, "ssh://git.example.org/sub/repo"),
    )
    made = storage.declarations.register(one, "ci", "main", CI)
    assert storage.declarations.claim(other, "ci") is None
    assert storage.declarations.claim(one, "ci") == made


def test_pipelines_move_with_their_repository(storage: Storage, world: World):
    organization_id = world.pipeline.organization_id
    connection = storage.host_connections.connect(NewHostConnection(organization_id, "gitlab", "15", "ci-bot"))
    storage.repositories.put_remote(connection, RemoteRepository("15", ONE, "sub/repo", "main", private=True))
    made = storage.declarations.register(connected(world, ONE), "ci", "main", CI)
    moved = "https://git.example.org/one/new.git"
    storage.repositories.put_remote(connection, RemoteRepository("15", moved, "one/new", "main", private=True))
    claimed = storage.declarations.claim(DeclaringRepository(organization_id, "one/new", moved), "ci")
    assert claimed is not None
    assert (claimed.id, claimed.repo_name) == (made.id, "one/new")
