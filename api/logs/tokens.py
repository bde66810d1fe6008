"""Log tokens: signed, not stored, valid for the logs of one build for one hour."""

from __future__ import annotations

from dataclasses import astuple
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from api.bodies import answer
from api.fields import Timestamp
from api.openapi.operations import Answer, operation
from storage import JsonModel, immutable

if TYPE_CHECKING:
    import falcon

    from api.middleware.authentication import Access
    from api.signing import Signer
    from storage import Clock

_PURPOSE = "log-token"
_LIFETIME = timedelta(hours=1)


@immutable
class LogGrant:
    """The build whose logs a token opens, and the user it was issued to; both are UUIDs."""

    build: str
    user: str


class LogTokens:
    """Makes and reads log tokens. Safe in any thread."""

    def __init__(self, signer: Signer, clock: Clock) -> None:
        self._signer = signer
        self._clock = clock

    def issue(self, grant: LogGrant) -> tuple[str, datetime]:
        """Return a token and the time at which it expires."""
        expires_at = (self._clock.now() + _LIFETIME).replace(microsecond=0)
        return self._signer.sign(_PURPOSE, [*astuple(grant), int(expires_at.timestamp())]), expires_at

    def open(self, token: str) -> LogGrant | None:
        """Return a token's grant; None if the token is invalid or expired."""
        opened = self._signer.open(_PURPOSE, token)
        if opened is None:
            return None
        build, user, expires_at = opened
        return LogGrant(build, user) if self._clock.now().timestamp() < expires_at else None


class LogTokenResponse(JsonModel):
    """A token to read a build's logs with, as ``?token=``."""

    token: str
    expires_at: Timestamp


class LogTokenResource:
    """``…/builds/{number}/log-token``."""

    def __init__(self, access: Access, tokens: LogTokens) -> None:
        self._access = access
        self._tokens = tokens

    @operation(
        "getBuildLogToken",
        Answer(200, "The token.", LogTokenResponse),
        errors=("organization_not_found", "pipeline_not_found", "build_not_found"),
    )
    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, number: str) -> None:
        """Get a token for the logs of all jobs of a build, valid for an hour."""
        build = self._access.build(req, org, pipeline, number)
        user = self._access.caller(req).user
        token, expires_at = self._tokens.issue(LogGrant(build.uuid, user.uuid))
        resp.cache_control = ["no-store"]
        answer(resp, LogTokenResponse.model_validate({"token": token, "expires_at": expires_at}))
