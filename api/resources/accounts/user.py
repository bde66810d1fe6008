"""The user that a token belongs to."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import storage
from actors import EngineBusy
from api.bodies import answer, read_body
from api.errors.responses import ApiError
from api.fields import RequestBody, RequiredText, StoredRecord, Uuid
from api.openapi.operations import Answer, operation
from storage import Caller, SoleOwner, Storage

if TYPE_CHECKING:
    import falcon

    from api.engine import EngineInterface
    from api.middleware.authentication import Access
    from api.middleware.rate_limits import RateLimits

__all__ = ["CurrentUserResource", "CurrentUserResponse", "UserUpdateRequest", "close_account"]


class CurrentUserResponse(StoredRecord):
    """The caller's user record."""

    uuid: Uuid
    email: str
    name: str
    personal_org_slug: str

    @classmethod
    def of(cls, user: storage.User) -> CurrentUserResponse:
        """Return the record of a stored user."""
        return cls.showing(user)


class UserUpdateRequest(RequestBody):
    """The body of ``PATCH /api/v0/user``."""

    name: RequiredText


class CurrentUserResource:
    """``/api/v0/user``."""

    def __init__(self, storage: Storage, engine: EngineInterface, access: Access, limits: RateLimits) -> None:
        self._storage = storage
        self._engine = engine
        self._access = access
        self._limits = limits

    @operation("getCurrentUser", Answer(200, "The caller.", CurrentUserResponse))
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Get the user that the token belongs to."""
        answer(resp, CurrentUserResponse.of(self._access.caller(req).user))

    @operation("updateCurrentUser", Answer(200, "The caller.", CurrentUserResponse), body=UserUpdateRequest)
    def on_patch(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Change the caller's name."""
        caller = self._access.caller(req)
        body = read_body(req, UserUpdateRequest)
        answer(resp, CurrentUserResponse.of(self._storage.users.rename(caller.user.id, body.name)))

    @operation(
        "deleteCurrentUser",
        Answer(204, "The account is deleted and its tokens are revoked."),
        errors=("sole_owner",),
    )
    def on_delete(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Delete the caller's account.

        Organizations without other members are deleted too, and their builds canceled. Refused while the caller is the
        only owner of an organization that has other members.
        """
        self._limits.limit_address(req, resp)
        caller = self._access.caller(req)
        self._limits.limit_account(caller, resp)
        close_account(self._storage, self._engine, caller)
        resp.status = 204


def close_account(storage: Storage, engine: EngineInterface, caller: Caller) -> None:
    """Delete the caller's account, and cancel the builds that go with it. Raises ApiError ``sole_owner``."""
    try:
        canceled = storage.accounts.close(caller.user.id)
    except SoleOwner as error:
        raise ApiError("sole_owner", str(error)) from None
    for build_id in canceled:
        with suppress(EngineBusy):  # the storage has recorded the cancel, so it is still carried out
            engine.cancel(build_id)
