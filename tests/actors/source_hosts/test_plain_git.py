"""The lines of a post-receive hook, which are a stranger's."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.source_hosts import PlainGit
from actors.source_hosts.host import PushedRef
from storage import Delivery, Storage
from tests.records import new_owner

ZERO, A, B = "0" * 40, "a" * 40, "b" * 40


@pytest.fixture
def delivery(storage: Storage) -> Delivery:
    repository = storage.repositories.connect(new_owner(storage).organization.id, "/srv/x.git", "a/x", 60)
    storage.deliveries.receive("git", "push", "1", repository, b"")
    return storage.deliveries.pending(repository.id)[0]


def test_each_line_is_a_head_that_moved(storage: Storage, delivery: Delivery):
    body = f"{ZERO} {A} refs/heads/main\n{A} {B} refs/tags/v1\n{B} {ZERO} refs/heads/gone\n"
    assert PlainGit(storage).events(replace(delivery, body=body.encode())) == (
        PushedRef("refs/heads/main", None, A),
        PushedRef("refs/tags/v1", A, B),
        PushedRef("refs/heads/gone", B, None),
    )


def test_other_lines_are_left_out(storage: Storage, delivery: Delivery):
    lines = (f"{A} {B} refs/notes/x", f"{A} -{B} refs/heads/x", f"{A} {B} refs/heads/a b", f"{A}{B} refs/heads/x", "")
    assert PlainGit(storage).events(replace(delivery, body="\n".join(lines).encode())) == ()


def test_no_body_is_an_error(storage: Storage, delivery: Delivery):
    @given(st.binary(max_size=200))
    def look(body: bytes) -> None:
        assert len(PlainGit(storage).events(replace(delivery, body=body))) <= 1

    look()
