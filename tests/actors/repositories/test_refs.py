"""Names of what to build: branches, tags, commits and pull requests."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from actors.repositories.fetching.remote import GitError
from actors.repositories.refs import pull_request_of
from storage import FetchedSource
from tests.actors.repositories.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def files(source: FetchedSource) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(source.archive)) as tar:
        return sorted(each for each in tar.getnames() if not each.startswith((".git", "./.git")) and each != ".")


def refused(world: World, name: str) -> str:
    with pytest.raises(GitError) as caught:
        world.pushes.source_of(world.repository, name)
    return str(caught.value)


def test_branches_tags_and_commits_are_found_by_name(world: World):
    first = world.remote.commit("First", **{"a.txt": "a"})
    world.remote.git("tag", "--annotate", "v1", "--message", "The first")
    second = world.remote.commit("Second", **{"b.txt": "b"})
    world.remote.push("main", "v1", "main:topic/one")
    found = {name: world.pushes.source_of(world.repository, name) for name in ("main", "topic/one", "v1", first[:9])}
    found["refs/tags/v1"] = world.pushes.source_of(world.repository, "refs/tags/v1")
    assert {name: (each.branch, each.commit, each.message, dict(each.env)) for name, each in found.items()} == {
        "main": ("main", second, "Second", {}),
        "topic/one": ("topic/one", second, "Second", {}),
        "v1": ("v1", first, "First", {"CI_TAG": "v1"}),
        "refs/tags/v1": ("v1", first, "First", {"CI_TAG": "v1"}),
        first[:9]: ("main", first, "First", {}),
    }
    assert {name: each.verified_ref for name, each in found.items()} == {
        "main": "refs/heads/main",
        "topic/one": "refs/heads/topic/one",
        "v1": "refs/tags/v1",
        "refs/tags/v1": "refs/tags/v1",
        first[:9]: None,  # below the head of main
    }
    assert (files(found["main"]), files(found["v1"])) == (["a.txt", "b.txt"], ["a.txt"])


@pytest.mark.parametrize(
    "name", ["mian", '$(touch x); "', "--upload-pack=x", "HEAD", "deadbeef", "a" * 200, "main^", "v*"]
)
def test_a_name_that_nothing_has_is_refused(world: World, name: str):
    assert refused(world, name).startswith("there is no branch, tag or commit")


def test_the_nearest_name_is_told(world: World):
    assert refused(world, "mian") == 'there is no branch, tag or commit "mian": did you mean "main"?'


def test_a_name_of_a_branch_and_a_tag_is_refused(world: World):
    world.remote.git("tag", "same")
    world.remote.push("refs/tags/same", "main:refs/heads/same")
    assert refused(world, "same") == '"same" is a branch and a tag: write refs/heads/same or refs/tags/same'


def test_a_commit_that_no_branch_has_is_refused(world: World):
    """A host gives out the commits of anybody's pull request by their names."""
    stranger = world.remote.commit("Of a stranger")
    world.arrive(stranger)
    assert refused(world, stranger) == f'there is no branch, tag or commit "{stranger}": there is "main"'


def test_a_pull_request_is_as_its_host_reports_it(world: World):
    head = world.remote.commit("Of a stranger")
    world.arrive(head, 7)
    world.host.open = [world.change(head, 7)]
    found = world.pushes.source_of(world.repository, "#7")
    assert (found.branch, found.commit, found.from_fork) == ("eve:topic", head, True)
    assert found.env == {"CI_PULL_REQUEST": "7", "CI_TARGET_BRANCH": "main"}
    assert found.verified_ref == "refs/pull/7/head"
    assert found.untrusted_origin == f"pull/{world.repository.id}/7"
    assert found.approval_reason == "eve may not push to acme/web"
    assert refused(world, "pull/8").endswith("has no open pull request 8 among the 50 that changed last")


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("#7", 7),
        ("pull/7", 7),
        ("refs/pull/7/head", 7),
        ("7", None),
        ("#", None),
        ("#7x", None),
        ("pull/7/merge", None),
    ],
)
def test_pull_requests_have_names(name: str, number: int | None):
    assert pull_request_of(name) == number
