"""Addresses of pages at source hosts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from actors.source_hosts import BuildPages, HostPages
from storage import NewBuild, NewOrigin, NewPipeline, OriginEvent, Repository, Storage
from tests.records import new_job


@pytest.fixture
def connected(storage: Storage, org: int) -> Repository:
    """A connected repository."""
    return storage.repositories.connect(org, "https://elsewhere.example/a/b", "a/b", 60)


@pytest.mark.parametrize(
    ("provider", "url", "commit", "branch", "pull_request"),
    [
        ("github", "https://git.example/a/b.git", "commit/c0ffee", "tree/fix/a%23b", "pull/7"),
        ("gitlab", "https://u:p@git.example/a/b/", "-/commit/c0ffee", "-/tree/fix/a%23b", "-/merge_requests/7"),
        ("bitbucket", "https://git.example/a/b", "commits/c0ffee", "branch/fix/a%23b", "pull-requests/7"),
        ("forgejo", "https://git.example/a/b", "commit/c0ffee", "src/branch/fix/a%23b", "pulls/7"),
    ],
)
def test_pages_are_where_each_host_has_them(
    connected: Repository, provider: str, url: str, commit: str, branch: str, pull_request: str
):
    pages = HostPages.of(replace(connected, provider=provider, url=url))
    assert pages is not None
    assert pages.url == "https://git.example/a/b"
    found = (pages.commit("c0ffee"), pages.branch("fix/a#b"), pages.pull_request(7))
    assert found == tuple(f"{pages.url}/{path}" for path in (commit, branch, pull_request))


@pytest.mark.parametrize(
    ("provider", "url"),
    [("forgejo", "javascript://git.example/a"), ("git", "https://git.example/a/b"), ("github", "/srv/git/a.git")],
)
def test_other_addresses_have_no_pages(connected: Repository, provider: str, url: str):
    assert HostPages.of(replace(connected, provider=provider, url=url)) is None


@pytest.mark.parametrize(
    ("provider", "person", "commits"),
    [
        ("github", "ada-l", "commits/fix/x?author=ada%40example.org"),
        ("gitlab", "ada-l", "-/commits/fix/x?author=Ada%20%26%20co"),
        ("forgejo", "ada-l", None),
        ("gitea", "ada-l", None),
        ("bitbucket", None, None),
    ],
)
def test_people_have_pages_where_hosts_have_them(
    connected: Repository, provider: str, person: str | None, commits: str | None
):
    pages = HostPages.of(replace(connected, provider=provider, url="https://git.example/group/b"))
    assert pages is not None
    assert pages.person("ada-l") == (None if person is None else f"https://git.example/{person}")
    assert pages.person("dependabot[bot]") is None
    assert pages.person("../admin") is None
    found = pages.commits_of("Ada & co", "ada@example.org", "fix/x")
    assert found == (None if commits is None else f"{pages.url}/{commits}")
    assert pages.commits_of("Ada", None, "main") is None


def test_a_build_links_to_what_it_is_of(connected: Repository, storage: Storage, org: int):
    pipeline = storage.pipelines.create(org, NewPipeline("web", "Web", "https://git.example/a/b", "main"))
    github = replace(connected, provider="github", url="https://git.example/a/b")
    build = storage.builds.create(pipeline, NewBuild("fix", "c0ffee"), (new_job("a"),))
    origin = NewOrigin(connected.id, OriginEvent.PULL_REQUEST, "refs/heads/fix", 7, "main", "ada", "Ada", "a@b.example")
    storage.build_origins.record(build.id, origin, reports=False)
    pages = BuildPages.of(build, github, storage.build_origins.get(build.id))
    assert pages == BuildPages(
        commit="https://git.example/a/b/commit/c0ffee",
        branch="https://git.example/a/b/tree/fix",
        number=7,
        pull_request="https://git.example/a/b/pull/7",
        author="https://git.example/a/b/commits/fix?author=a%40b.example",
        pusher="https://git.example/ada",
    )
    fork = BuildPages.of(replace(build, from_fork=True), github, storage.build_origins.get(build.id))
    assert (fork.branch, fork.author, fork.pull_request) == (None, None, pages.pull_request)
    assert BuildPages.of(build, replace(github, provider="git"), storage.build_origins.get(build.id)) == BuildPages(
        number=7
    )
    assert BuildPages.of(build, None, None) == BuildPages()
