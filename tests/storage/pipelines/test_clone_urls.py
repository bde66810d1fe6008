from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage import repo_name


@pytest.mark.parametrize(
    "repository",
    [
        "https://example.org/owner/repo",
        "https://example.org/owner/repo.git",
        "https://example.org/owner/repo.git/",
        "https://user:secret@example.org:8443/owner/repo.git",
        "https://example.org/group/owner/repo",
        "HTTPS://example.org//owner//repo",
        "ssh://git@example.org:2222/owner/repo.git",
        "git://example.org/owner/repo",
        "git@example.org:owner/repo.git",
        "git@example.org:group/owner/repo.git/",
        "example.org:owner/repo",
        "git@[::1]:owner/repo.git",
        " https://example.org/owner/repo?ref=x#y ",
    ],
)
def test_a_clone_url_names_owner_and_repository(repository: str):
    assert repo_name(repository) == "owner/repo"


@pytest.mark.parametrize(
    "repository",
    [
        "",
        "repo",
        "owner/repo",
        "/srv/git/repo.git",
        "https://example.org",
        "https://example.org/repo",
        "git@host:repo",
        "https://example.org/owner/.git",
        "file:///repo.git",
    ],
)
def test_what_names_no_owner_names_nothing(repository: str):
    assert repo_name(repository) is None


@given(st.text(max_size=60))
def test_any_text_names_two_segments_or_nothing(text: str):
    for repository in (text, f"https://example.org/{text}", f"git@example.org:{text}"):
        name = repo_name(repository)
        assert name is None or all(name.split("/"))
        assert name is None or name.count("/") == 1
