"""Passkey login: signing in with a passkey."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.bodies import answer, read_body, read_optional_body
from api.errors.catalog import ApiError
from api.fields import RequestBody
from api.openapi.operations import Answer, operation
from api.sign_in.answers import TokenResponse
from api.sign_in.passkeys import (
    SIGN_IN_ERRORS,
    BrowserCredential,
    ChallengeId,
    PasskeyChallengeResponse,
    PasskeySignIn,
)

if TYPE_CHECKING:
    import falcon

    from api.middleware.rate_limits import RateLimits
    from api.sign_in.relying_party import RelyingParty
    from api.sign_in.sessions import SessionStart
    from storage import Storage


class PasskeyLoginOptionsRequest(RequestBody):
    """The body of ``POST /api/v0/auth/passkey/login/options``, without fields."""


class PasskeyLoginFinalizeRequest(RequestBody):
    """The body of ``POST /api/v0/auth/passkey/login/finalize``."""

    challenge_id: ChallengeId
    assertion: BrowserCredential


class PasskeyLoginResource:
    """``/api/v0/auth/passkey/login/…``."""

    def __init__(self, storage: Storage, party: RelyingParty, sessions: SessionStart, limits: RateLimits) -> None:
        self._storage = storage
        self._sign_in = PasskeySignIn(storage, party)
        self._sessions = sessions
        self._limits = limits

    @operation(
        "passkeyLoginOptions",
        Answer(200, "The challenge.", PasskeyChallengeResponse),
        body=PasskeyLoginOptionsRequest,
        body_required=False,
        errors=("rate_limited",),
        security="public",
        counted=False,
        changes=False,
    )
    def on_post_options(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Get a challenge that any passkey of this service may answer."""
        self._limits.limit_address(req, resp)
        read_optional_body(req, PasskeyLoginOptionsRequest)
        resp.cache_control = ["no-store"]
        answer(resp, self._sign_in.begin())

    @operation(
        "passkeyLoginFinalize",
        Answer(200, "The session.", TokenResponse),
        body=PasskeyLoginFinalizeRequest,
        errors=("rate_limited", *SIGN_IN_ERRORS),
        security="public",
        counted=False,
    )
    def on_post_finalize(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Sign in with the authenticator's answer to a challenge.

        A challenge is used up by the first answer, right or wrong.
        """
        self._limits.limit_address(req, resp)
        body = read_body(req, PasskeyLoginFinalizeRequest)
        passkey, sign_count = self._sign_in.finish(body.challenge_id, body.assertion)
        with self._storage.transaction():
            user = self._storage.users.by_id(passkey.user_id)
            if user is None or not self._storage.passkeys.use(passkey, sign_count):
                raise ApiError(
                    "passkey_assertion_failed", "the passkey was used or deleted at the same moment: try again"
                )
            self._limits.limit_user(user, resp)
            token = self._sessions.token(req, resp, user, "passkey")
        answer(resp, TokenResponse(token=token))
