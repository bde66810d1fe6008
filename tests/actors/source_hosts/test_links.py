"""Addresses of pages at source hosts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from actors.source_hosts import HostPages
from storage import Repository, Storage


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
