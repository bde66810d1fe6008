"""Recovery: a new passkey for the person who reads the account's e-mail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.bodies import answer, read_body
from api.errors.catalog import ApiError
from api.fields import RequestBody, RequiredText
from api.openapi.operations import Answer, operation
from api.sign_in.answers import AuthTokenResponse, UserRecord
from api.sign_in.passkeys import (
    REGISTRATION_ERRORS,
    ChallengeId,
    NewCredential,
    PasskeyChallengeResponse,
    PasskeyRegistration,
)
from storage import PasskeyPurpose, SignInLink, SignInLinkKind

if TYPE_CHECKING:
    import falcon

    from api.middleware.rate_limits import RateLimits
    from api.sign_in.mail import SignInMail
    from api.sign_in.relying_party import RelyingParty
    from api.sign_in.sessions import SessionStart
    from storage import Storage, User

_RECOVERY = PasskeyPurpose.RECOVERY


class RecoverBeginRequest(RequestBody):
    """The body of ``POST /api/v0/auth/recover/begin``."""

    email: RequiredText


class RecoverOptionsRequest(RequestBody):
    """The body of ``POST /api/v0/auth/recover/options``."""

    magic_link_token: RequiredText


class RecoverFinalizeRequest(RequestBody):
    """The body of ``POST /api/v0/auth/recover/finalize``."""

    magic_link_token: RequiredText
    challenge_id: ChallengeId
    attestation: NewCredential


class RecoveryResource:
    """``/api/v0/auth/recover/…``."""

    def __init__(
        self, storage: Storage, party: RelyingParty, mail: SignInMail, sessions: SessionStart, limits: RateLimits
    ) -> None:
        self._storage = storage
        self._registration = PasskeyRegistration(storage, party)
        self._mail = mail
        self._sessions = sessions
        self._limits = limits

    @operation(
        "recoverBegin",
        Answer(204, "If the address has an account, it gets a link."),
        body=RecoverBeginRequest,
        errors=("rate_limited",),
        security="public",
        counted=False,
        changes=False,
    )
    def on_post_begin(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Send a magic link to an account's address, which is good for 15 minutes.

        The response is the same for every address, so that it tells nobody who has an account.
        """
        self._limits.limit_address(req, resp)
        body = read_body(req, RecoverBeginRequest)
        self._limits.limit_email(req, resp, body.email)
        self._mail.recovery(body.email)
        resp.status = 204

    @operation(
        "recoverOptions",
        Answer(200, "The challenge.", PasskeyChallengeResponse),
        body=RecoverOptionsRequest,
        errors=("rate_limited", "passkey_token_invalid"),
        security="public",
        counted=False,
        changes=False,
    )
    def on_post_options(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Get a challenge for a new passkey of the account. The link can be used again."""
        self._limits.limit_address(req, resp)
        token = read_body(req, RecoverOptionsRequest).magic_link_token
        user = self._user(self._storage.sign_in_links.read(SignInLinkKind.MAGIC_LINK, token))
        self._limits.limit_user(user, resp)
        handle = self._storage.passkeys.handle(user.id)
        resp.cache_control = ["no-store"]
        answer(resp, self._registration.begin(_RECOVERY, token, handle=handle, email=user.email, name=user.name))

    @operation(
        "recoverFinalize",
        Answer(200, "The session and the user.", AuthTokenResponse),
        body=RecoverFinalizeRequest,
        errors=("rate_limited", "passkey_token_invalid", *REGISTRATION_ERRORS),
        security="public",
        counted=False,
    )
    def on_post_finalize(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Add the passkey that answered a challenge to the account, and sign in. Uses up the link.

        All other sessions of the account end, because a device may be lost. Its other passkeys and its API keys stay.
        """
        self._limits.limit_address(req, resp)
        body = read_body(req, RecoverFinalizeRequest)
        token = body.magic_link_token
        links = self._storage.sign_in_links
        self._limits.limit_user(self._user(links.read(SignInLinkKind.MAGIC_LINK, token)), resp)
        handle, made = self._registration.finish(_RECOVERY, token, body.challenge_id, body.attestation)
        with self._storage.transaction():
            user = self._user(links.take(SignInLinkKind.MAGIC_LINK, token))
            self._registration.store(user.id, handle, made)
            self._storage.tokens.end_sessions(user.id)
            session = self._sessions.token(req, resp, user, "recovery")
        answer(resp, AuthTokenResponse(token=session, user=UserRecord.of(user)))

    def _user(self, link: SignInLink | None) -> User:
        """Return the user of a magic link. Raises ApiError ``passkey_token_invalid``."""
        user = None if link is None or link.user_id is None else self._storage.users.by_id(link.user_id)
        if user is None:
            raise ApiError("passkey_token_invalid", "the link is unknown, used or expired: ask for another one")
        return user
