"""The user that a token belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel

from api.bodies import answer
from api.fields import Uuid
from api.operations import Answer, operation

if TYPE_CHECKING:
    import falcon

    import storage
    from api.access import Access

__all__ = ["CurrentUser", "UserRecord"]


class UserRecord(BaseModel):
    """The current-user record."""

    uuid: Uuid
    email: str
    name: str
    personal_org_slug: str

    @classmethod
    def of(cls, user: storage.User) -> UserRecord:
        """Return the record of a stored user."""
        return cls(uuid=user.uuid, email=user.email, name=user.name, personal_org_slug=user.personal_org_slug)


class CurrentUser:
    """``/api/v0/user``."""

    def __init__(self, access: Access) -> None:
        self._access = access

    @operation("getCurrentUser", Answer(200, "The caller.", UserRecord))
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Get the user that the token belongs to."""
        answer(resp, UserRecord.of(self._access.caller(req).user))
