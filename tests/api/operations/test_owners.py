"""Operations of the owner of the host alone."""

from __future__ import annotations

from typing import Any

import pytest

from api.doors.http import HttpDoor
from api.doors.local import LocalDoor, service_elsewhere
from api.errors.catalog import ApiError
from api.openapi.operations import Routes
from api.operations import api_tokens
from storage import Storage, TokenKind, UserUnknown
from tests.clock import ManualClock
from tests.records import new_owner


@pytest.fixture
def door(storage: Storage, clock: ManualClock) -> LocalDoor:
    return LocalDoor(service_elsewhere(storage, clock), "root", "uid 0")


def test_http_leads_to_none_of_them():
    unused: Any = None
    with pytest.raises(TypeError, match="createUserToken is the owner's alone"):
        HttpDoor(unused, unused, unused, unused).add(Routes(), api_tokens.create_user_token)


def test_their_body_needs_no_check_and_they_are_noted(storage: Storage, door: LocalDoor):
    email = new_owner(storage).user.email
    body = api_tokens.UserTokenCreateRequest(TokenKind.SESSION, "browser")
    made = door.perform(api_tokens.create_user_token, {"email": email}, body)
    caller = storage.tokens.caller(made.token)
    assert caller is not None
    assert (caller.user.email, caller.kind) == (email, TokenKind.SESSION)
    (entry,) = storage.audit.page(10, None).rows
    assert (entry.actor, entry.action, entry.subject, entry.note) == (
        "root",
        "createUserToken",
        f"{email}/{made.uuid}",
        "box",
    )
    assert made.token not in str(entry)


def test_what_is_refused_is_not_noted(storage: Storage, door: LocalDoor):
    with pytest.raises(UserUnknown, match="there is no user eve@"):
        door.perform(api_tokens.list_user_tokens, {"email": "eve@example.org"})
    with pytest.raises(ApiError, match="there is no token 7, or it is revoked"):
        door.perform(api_tokens.revoke_user_token, {"id": "7"})
    assert storage.audit.page(10, None).rows == ()


def test_what_is_about_the_caller_needs_one(door: LocalDoor):
    with pytest.raises(ApiError, match="about the caller's own account") as refused:
        door.perform(api_tokens.revoke_api_token, {"id": "7"})
    assert refused.value.code == "unauthorized"
