"""The mail that the caller wants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.bodies import answer, read_body
from api.fields import RequestBody
from api.openapi.operations import Answer, operation
from storage import JsonModel

if TYPE_CHECKING:
    import falcon

    from api.middleware.authentication import Access
    from storage import Storage

__all__ = ["MailSettingsRecord", "MailSettingsResource", "UpdateMailSettingsRequest"]


class MailSettingsRecord(JsonModel):
    """The mail of an account: ``builds`` tells of builds, if their pipelines have e-mail notifications."""

    builds: bool


class UpdateMailSettingsRequest(RequestBody):
    """The body of ``PATCH /api/v0/user/mail``."""

    builds: bool


class MailSettingsResource:
    """``/api/v0/user/mail``."""

    def __init__(self, storage: Storage, access: Access) -> None:
        self._opt_outs = storage.mail_opt_outs
        self._access = access

    @operation("getMailSettings", Answer(200, "The settings.", MailSettingsRecord))
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Get the mail that the service sends to the caller's address."""
        caller = self._access.caller(req)
        answer(resp, MailSettingsRecord(builds=not self._opt_outs.has(caller.user.email)))

    @operation(
        "updateMailSettings",
        Answer(200, "The settings as they are now.", MailSettingsRecord),
        body=UpdateMailSettingsRequest,
    )
    def on_patch(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Want mail about builds, or no more of it."""
        caller = self._access.caller(req)
        body = read_body(req, UpdateMailSettingsRequest)
        self._opt_outs.set(caller.user.email, out=not body.builds)
        answer(resp, MailSettingsRecord(builds=body.builds))
