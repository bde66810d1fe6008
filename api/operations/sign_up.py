"""Sign-up and recovery: a passkey by a link (wire-decisions.md, "Sign-in").

Both go the same way: a mail with a link, a challenge for the holder of the link, and a passkey that answers it, for a
new account or for one whose passkey was lost. The
owner of the service needs no mail: a link that the host prints proves the owner, who then gives an address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from api.errors.catalog import ApiError
from api.operations.operation import POST, VISITORS, Call, Operation, Success, done, operation, shown_once
from api.operations.things import AUTH
from api.sign_in.answers import AuthTokenResponse
from api.sign_in.passkeys import REGISTRATION_ERRORS, ChallengeId, NewCredential, PasskeyChallengeResponse
from storage import (
    EmailInvalid,
    EmailTaken,
    NameUnusable,
    PasskeyPurpose,
    SignInLink,
    SignInLinkKind,
    SignUpClosed,
    email_address,
    immutable,
    new_handle,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from api.fields import RequiredText, Text
    from storage import User

R = TypeVar("R")


@immutable
class _Way:
    """A way to a passkey by a link: its path, its tag and the errors of its link."""

    path: str
    tag: str
    errors: tuple[str, ...]

    def begin(self, id: str, answer: str) -> Callable[[Callable[..., R]], Operation[R]]:
        """Declare the operation that sends the link."""
        return self._step(id, "begin", done(answer), ("rate_limited",), changes=False)

    def options(self, id: str) -> Callable[[Callable[..., R]], Operation[R]]:
        """Declare the operation that gives a challenge."""
        return self._step(id, "options", shown_once("The challenge."), self.errors, changes=False)

    def finalize(self, id: str, answer: str) -> Callable[[Callable[..., R]], Operation[R]]:
        """Declare the operation that takes the passkey, and signs in."""
        errors = (*self.errors, *REGISTRATION_ERRORS)
        return self._step(id, "finalize", shown_once(answer), errors)

    def _step(
        self, id: str, step: str, answer: Success, errors: tuple[str, ...], *, changes: bool = True
    ) -> Callable[[Callable[..., R]], Operation[R]]:
        return operation(
            id,
            POST,
            f"{self.path}/{step}",
            answer,
            errors=errors,
            callers=VISITORS,
            changes=changes,
            tag=self.tag,
        )


_LINK_ERRORS = ("rate_limited", "passkey_token_invalid")
_SIGN_UP = _Way(
    f"{AUTH}/passkey/signup", "passkey sign up", (*_LINK_ERRORS, "passkey_signup_email_taken", "signup_closed")
)
_RECOVERY = _Way(f"{AUTH}/recover", "recovery", _LINK_ERRORS)


@immutable
class PasskeySignupBeginRequest:
    """The body of ``POST /api/v0/auth/passkey/signup/begin``."""

    email: RequiredText
    name: RequiredText


@immutable
class PasskeySignupOptionsRequest:
    """The body of ``POST /api/v0/auth/passkey/signup/options``.

    ``email`` and ``name`` are those of the owner, whose link says neither; with any other link they are ignored.
    """

    verification_token: RequiredText
    email: Text | None = None
    name: Text | None = None


@immutable
class PasskeySignupFinalizeRequest:
    """The body of ``POST /api/v0/auth/passkey/signup/finalize``; the rest is as for the options."""

    challenge_id: ChallengeId
    verification_token: RequiredText
    attestation: NewCredential
    email: Text | None = None
    name: Text | None = None


@immutable
class RecoverBeginRequest:
    """The body of ``POST /api/v0/auth/recover/begin``."""

    email: RequiredText


@immutable
class RecoverOptionsRequest:
    """The body of ``POST /api/v0/auth/recover/options``."""

    magic_link_token: RequiredText


@immutable
class RecoverFinalizeRequest:
    """The body of ``POST /api/v0/auth/recover/finalize``."""

    magic_link_token: RequiredText
    challenge_id: ChallengeId
    attestation: NewCredential


@immutable
class _Person:
    """The person who has a link to sign up; ``owner_token`` is the token if it is the owner's link."""

    email: str
    name: str
    owner_token: str | None


@_SIGN_UP.begin("passkeySignupBegin", "If the address may sign up, it gets a link.")
def begin_sign_up(call: Call, body: PasskeySignupBeginRequest) -> None:
    """Send a link that proves an e-mail address, which is good for 24 hours.

    The response is the same for every address, so that it tells nobody who has an account.
    """
    call.visitor.limit_email(body.email)
    call.later.sign_in_mail.sign_up(body.email, body.name)


@_SIGN_UP.options("passkeySignupOptions")
def challenge_sign_up(call: Call, body: PasskeySignupOptionsRequest) -> PasskeyChallengeResponse:
    """Get a challenge for the first passkey of a new account. The link can be used again."""
    token = body.verification_token
    person = _person(call, token, body.email, body.name)
    if call.storage.users.by_email(person.email) is not None:
        raise _email_taken(person.email)
    try:
        call.storage.sign_ups.check(person.email, call.later.sign_up_policy, person.owner_token)
    except SignUpClosed as error:
        raise _refused(person, error) from None
    return call.later.passkeys.begin(
        PasskeyPurpose.SIGN_UP, token, handle=new_handle(), email=person.email, name=person.name
    )


@_SIGN_UP.finalize("passkeySignupFinalize", "The session and the new user.")
def finish_sign_up(call: Call, body: PasskeySignupFinalizeRequest) -> AuthTokenResponse:
    """Make an account with the passkey that answered a challenge, and sign in. Uses up the link."""
    token = body.verification_token
    person = _person(call, token, body.email, body.name)

    def account() -> User:
        links = call.storage.sign_in_links
        if person.owner_token is None and links.take(SignInLinkKind.VERIFICATION, token) is None:
            raise _token_invalid()
        return _new_account(call, person)

    return _signed_in(call, PasskeyPurpose.SIGN_UP, token, body, account, "passkey")


@_RECOVERY.begin("recoverBegin", "If the address has an account, it gets a link.")
def begin_recovery(call: Call, body: RecoverBeginRequest) -> None:
    """Send a magic link to an account's address, which is good for 15 minutes.

    The response is the same for every address, so that it tells nobody who has an account.
    """
    call.visitor.limit_email(body.email)
    call.later.sign_in_mail.recovery(body.email)


@_RECOVERY.options("recoverOptions")
def challenge_recovery(call: Call, body: RecoverOptionsRequest) -> PasskeyChallengeResponse:
    """Get a challenge for a new passkey of the account. The link can be used again."""
    token = body.magic_link_token
    user = _linked_user(call, call.storage.sign_in_links.read(SignInLinkKind.MAGIC_LINK, token))
    call.visitor.limit_user(user)
    handle = call.storage.passkeys.handle(user.id)
    return call.later.passkeys.begin(PasskeyPurpose.RECOVERY, token, handle=handle, email=user.email, name=user.name)


@_RECOVERY.finalize("recoverFinalize", "The session and the user.")
def finish_recovery(call: Call, body: RecoverFinalizeRequest) -> AuthTokenResponse:
    """Add the passkey that answered a challenge to the account, and sign in. Uses up the link.

    All other sessions of the account end, because a device may be lost. Its other passkeys and its API keys stay.
    """
    token, links = body.magic_link_token, call.storage.sign_in_links
    call.visitor.limit_user(_linked_user(call, links.read(SignInLinkKind.MAGIC_LINK, token)))

    def account() -> User:
        user = _linked_user(call, links.take(SignInLinkKind.MAGIC_LINK, token))
        call.storage.tokens.end_sessions(user.id)
        return user

    return _signed_in(call, PasskeyPurpose.RECOVERY, token, body, account, "recovery")


def _signed_in(
    call: Call,
    purpose: PasskeyPurpose,
    token: str,
    body: PasskeySignupFinalizeRequest | RecoverFinalizeRequest,
    account: Callable[[], User],
    way: str,
) -> AuthTokenResponse:
    """Add the passkey that answered a challenge to an account, and sign in.

    ``account`` makes or finds it and uses up the link, in the same transaction. Raises ApiError, as it does.
    """
    handle, made = call.later.passkeys.finish(purpose, token, body.challenge_id, body.attestation)
    with call.storage.transaction():
        user = account()
        call.later.passkeys.store(user.id, handle, made)
        return AuthTokenResponse.of(call.visitor.begin_session(user, way), user)


def _person(call: Call, token: str, email: str | None, name: str | None) -> _Person:
    """Return the person who has a link. Raises ApiError ``passkey_token_invalid`` or ``invalid_body``."""
    links = call.storage.sign_in_links
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


def _new_account(call: Call, person: _Person) -> User:
    """Make the account of a person, in the caller's transaction. Raises ApiError."""
    try:
        return call.storage.sign_ups.create(person.email, person.name, call.later.sign_up_policy, person.owner_token)
    except SignUpClosed as error:
        raise _refused(person, error) from None
    except EmailTaken:
        raise _email_taken(person.email) from None
    except NameUnusable as error:
        raise ApiError("invalid_body", f"email: {error}") from None


def _linked_user(call: Call, link: SignInLink | None) -> User:
    """Return the user of a magic link. Raises ApiError ``passkey_token_invalid``."""
    user = None if link is None or link.user_id is None else call.storage.users.by_id(link.user_id)
    if user is None:
        raise _token_invalid()
    return user


def _refused(person: _Person, error: SignUpClosed) -> ApiError:
    """Return the error for a person who may not sign up: of an owner, only the link can be wrong."""
    return ApiError("signup_closed", str(error)) if person.owner_token is None else _token_invalid()


def _token_invalid() -> ApiError:
    return ApiError("passkey_token_invalid", "the link is unknown, used or expired: ask for another one")


def _email_taken(email: str) -> ApiError:
    return ApiError("passkey_signup_email_taken", f"{email} has an account already: sign in, or recover it")
