"""Passkey sign-up: an account for the person who proved an e-mail address, with a passkey.

The owner of the service needs no e-mail: a link that the host prints proves the owner, who then gives an address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.bodies import answer, read_body
from api.errors.catalog import ApiError
from api.fields import RequestBody, RequiredText, Text
from api.openapi.operations import Answer, operation
from api.sign_in.answers import AuthTokenResponse, UserRecord
from api.sign_in.passkeys import (
    REGISTRATION_ERRORS,
    ChallengeId,
    NewCredential,
    PasskeyChallengeResponse,
    PasskeyRegistration,
)
from storage import (
    EmailInvalid,
    EmailTaken,
    NameUnusable,
    PasskeyPurpose,
    SignInLinkKind,
    SignUpClosed,
    SignUpPolicy,
    email_address,
    immutable,
    new_handle,
)

if TYPE_CHECKING:
    import falcon

    from api.middleware.rate_limits import RateLimits
    from api.sign_in.mail import SignInMail
    from api.sign_in.relying_party import RelyingParty
    from api.sign_in.sessions import SessionStart
    from storage import Storage, User

_SIGN_UP = PasskeyPurpose.SIGN_UP
_ERRORS = ("rate_limited", "passkey_token_invalid", "passkey_signup_email_taken", "signup_closed")


class PasskeySignupBeginRequest(RequestBody):
    """The body of ``POST /api/v0/auth/passkey/signup/begin``."""

    email: RequiredText
    name: RequiredText


class PasskeySignupOptionsRequest(RequestBody):
    """The body of ``POST /api/v0/auth/passkey/signup/options``.

    ``email`` and ``name`` are those of the owner, whose link says neither; with any other link they are ignored.
    """

    verification_token: RequiredText
    email: Text | None = None
    name: Text | None = None


class PasskeySignupFinalizeRequest(RequestBody):
    """The body of ``POST /api/v0/auth/passkey/signup/finalize``; the rest is as for the options."""

    challenge_id: ChallengeId
    verification_token: RequiredText
    attestation: NewCredential
    email: Text | None = None
    name: Text | None = None


@immutable
class _Person:
    """The person who has a link; ``owner_token`` is the token if it is the owner's link."""

    email: str
    name: str
    owner_token: str | None


class PasskeySignUpResource:
    """``/api/v0/auth/passkey/signup/…``."""

    def __init__(
        self,
        storage: Storage,
        party: RelyingParty,
        policy: SignUpPolicy,
        mail: SignInMail,
        sessions: SessionStart,
        limits: RateLimits,
    ) -> None:
        self._storage = storage
        self._registration = PasskeyRegistration(storage, party)
        self._policy = policy
        self._mail = mail
        self._sessions = sessions
        self._limits = limits

    @operation(
        "passkeySignupBegin",
        Answer(204, "If the address may sign up, it gets a link."),
        body=PasskeySignupBeginRequest,
        errors=("rate_limited",),
        security="public",
        counted=False,
        changes=False,
    )
    def on_post_begin(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Send a link that proves an e-mail address, which is good for 24 hours.

        The response is the same for every address, so that it tells nobody who has an account.
        """
        self._limits.limit_address(req, resp)
        body = read_body(req, PasskeySignupBeginRequest)
        self._limits.limit_email(req, resp, body.email)
        self._mail.sign_up(body.email, body.name)
        resp.status = 204

    @operation(
        "passkeySignupOptions",
        Answer(200, "The challenge.", PasskeyChallengeResponse),
        body=PasskeySignupOptionsRequest,
        errors=_ERRORS,
        security="public",
        counted=False,
        changes=False,
    )
    def on_post_options(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Get a challenge for the first passkey of a new account. The link can be used again."""
        self._limits.limit_address(req, resp)
        body = read_body(req, PasskeySignupOptionsRequest)
        token = body.verification_token
        person = self._person(token, body.email, body.name)
        if self._storage.users.by_email(person.email) is not None:
            raise _email_taken(person.email)
        try:
            self._storage.sign_ups.check(person.email, self._policy, person.owner_token)
        except SignUpClosed as error:
            raise _refused(person, error) from None
        resp.cache_control = ["no-store"]
        handle = new_handle()
        answer(resp, self._registration.begin(_SIGN_UP, token, handle=handle, email=person.email, name=person.name))

    @operation(
        "passkeySignupFinalize",
        Answer(200, "The session and the new user.", AuthTokenResponse),
        body=PasskeySignupFinalizeRequest,
        errors=(*_ERRORS, *REGISTRATION_ERRORS),
        security="public",
        counted=False,
    )
    def on_post_finalize(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Make an account with the passkey that answered a challenge, and sign in. Uses up the link."""
        self._limits.limit_address(req, resp)
        body = read_body(req, PasskeySignupFinalizeRequest)
        token = body.verification_token
        person = self._person(token, body.email, body.name)
        handle, made = self._registration.finish(_SIGN_UP, token, body.challenge_id, body.attestation)
        with self._storage.transaction():
            user = self._account(person, token)
            self._registration.store(user.id, handle, made)
            session = self._sessions.token(req, resp, user, "passkey")
        answer(resp, AuthTokenResponse(token=session, user=UserRecord.of(user)))

    def _person(self, token: str, email: str | None, name: str | None) -> _Person:
        """Return the person who has a link. Raises ApiError ``passkey_token_invalid`` or ``invalid_body``."""
        links = self._storage.sign_in_links
        link = links.read(SignInLinkKind.VERIFICATION, token)
        if link is not None and link.email is not None:
            return _Person(link.email, link.name, None)
        if links.read(SignInLinkKind.OWNER, token) is None:
            raise _token_invalid()
        try:
            address = email_address(email or "")
        except EmailInvalid as error:
            raise ApiError("invalid_body", f"email: expected one address such as ada@example.org: {error}") from None
        return _Person(address, (name or "").strip(), token)

    def _account(self, person: _Person, token: str) -> User:
        """Make the account, and use up the link, in the caller's transaction. Raises ApiError."""
        if person.owner_token is None and self._storage.sign_in_links.take(SignInLinkKind.VERIFICATION, token) is None:
            raise _token_invalid()
        try:
            return self._storage.sign_ups.create(person.email, person.name, self._policy, person.owner_token)
        except SignUpClosed as error:
            raise _refused(person, error) from None
        except EmailTaken:
            raise _email_taken(person.email) from None
        except NameUnusable as error:
            raise ApiError("invalid_body", f"email: {error}") from None


def _refused(person: _Person, error: SignUpClosed) -> ApiError:
    """Return the error for a person who may not sign up: of an owner, only the link can be wrong."""
    return ApiError("signup_closed", str(error)) if person.owner_token is None else _token_invalid()


def _token_invalid() -> ApiError:
    return ApiError("passkey_token_invalid", "the link is unknown, used or expired: ask for another one")


def _email_taken(email: str) -> ApiError:
    return ApiError("passkey_signup_email_taken", f"{email} has an account already: sign in, or recover it")
