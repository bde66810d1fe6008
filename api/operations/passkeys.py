"""Passkeys of the caller's account, and signing in with one.

A passkey makes sessions, so adding one needs a session, not an API key.
"""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - the model of a record reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

from api.errors.catalog import ApiError
from api.operations.operation import (
    ACCOUNT,
    DELETE,
    GET,
    POST,
    SIGNED_IN,
    VISITORS,
    Call,
    Whole,
    done,
    operation,
    shown_once,
)
from api.operations.things import AUTH, USER, ThisCaller, ThisUser
from api.sign_in.answers import TokenResponse
from api.sign_in.passkeys import (
    OPTIONS_EXAMPLE,
    REGISTRATION_ERRORS,
    SIGN_IN_ERRORS,
    BrowserCredential,
    ChallengeId,
    NewCredential,
    PasskeyChallengeResponse,
)
from storage import LastPasskey, PasskeyPurpose, example, immutable, showing, shown_as

if TYPE_CHECKING:
    from api.fields import Text
    from storage import Caller, Uuid

_REGISTER = f"{AUTH}/passkey/register"
_LOGIN = f"{AUTH}/passkey/login"
_LOGIN_TAG = "passkey login"
_PASSKEYS = f"{USER}/passkeys"


@immutable
class PasskeyRecord:
    """A passkey; ``aaguid`` names the model of its authenticator."""

    uuid: str = shown_as("uuid")
    nickname: str
    aaguid: Uuid
    created_at: datetime
    last_used_at: datetime | None


PasskeyList = Annotated[list[PasskeyRecord], Whole("The caller's passkeys.", "PasskeyListResponse", "passkeys")]


@immutable
class PasskeyRegisterOptionsResponse:
    """A challenge for an authenticator of the caller."""

    challenge_id: Uuid
    options: dict[str, Any] = example(OPTIONS_EXAMPLE)


@immutable
class PasskeyRegisterFinalizeRequest:
    """The body of ``POST /api/v0/auth/passkey/register/finalize``; the default nickname is ``Passkey``."""

    challenge_id: ChallengeId
    attestation: NewCredential
    nickname: Text | None = None


@operation(
    "passkeyRegisterOptions",
    POST,
    f"{_REGISTER}/options",
    shown_once("The challenge."),
    changes=False,
    callers=SIGNED_IN,
)
def begin_passkey(call: Call, caller: ThisCaller) -> PasskeyRegisterOptionsResponse:
    """Get a challenge for one more passkey of the caller; needs a session token."""
    user = caller.user
    begun = call.later.passkeys.begin(
        PasskeyPurpose.REGISTRATION,
        _owner(caller),
        handle=call.storage.passkeys.handle(user.id),
        email=user.email,
        name=user.name,
        known=call.storage.passkeys.of_user(user.id),
    )
    return PasskeyRegisterOptionsResponse(begun.challenge_id, begun.options)


@operation(
    "passkeyRegisterFinalize",
    POST,
    f"{_REGISTER}/finalize",
    "The passkey.",
    errors=REGISTRATION_ERRORS,
    callers=SIGNED_IN,
)
def finish_passkey(call: Call, caller: ThisCaller, body: PasskeyRegisterFinalizeRequest) -> PasskeyRecord:
    """Add the passkey that answered a challenge to the caller's account; needs a session token."""
    passkeys, purpose = call.later.passkeys, PasskeyPurpose.REGISTRATION
    handle, made = passkeys.finish(purpose, _owner(caller), body.challenge_id, body.attestation)
    return showing(PasskeyRecord, passkeys.store(caller.user.id, handle, made, (body.nickname or "").strip()))


@operation("listPasskeys", GET, _PASSKEYS, "The passkeys.", callers=ACCOUNT)
def list_passkeys(call: Call, user: ThisUser) -> PasskeyList:
    """List the caller's passkeys, oldest first."""
    return [showing(PasskeyRecord, each) for each in call.storage.passkeys.of_user(user.id)]


@operation(
    "deletePasskey",
    DELETE,
    f"{_PASSKEYS}/{{uuid}}",
    done("The passkey is deleted."),
    errors=("passkey_not_found", "passkey_last_credential"),
    callers=ACCOUNT,
)
def delete_passkey(call: Call, caller: ThisCaller, uuid: str) -> None:
    """Delete one of the caller's passkeys.

    With the last one all other sessions of the account end. That one is refused if it is the only way to sign in:
    the account is linked to no identity provider, and the service has no mail server for a magic link.
    """
    storage, user_id = call.storage, caller.user.id
    others_suffice = call.engine.sends_mail or bool(storage.identities.of_user(user_id))
    try:
        with storage.transaction():
            left = storage.passkeys.remove(user_id, uuid, others_suffice=others_suffice)
            if left == 0:
                storage.tokens.end_sessions(user_id, but=caller.token_id)
    except LastPasskey as error:
        raise ApiError("passkey_last_credential", str(error)) from None
    if left is None:
        raise ApiError("passkey_not_found", "you have no passkey with this ID")


@immutable
class PasskeyLoginOptionsRequest:
    """The body of ``POST /api/v0/auth/passkey/login/options``, without fields."""


@immutable
class PasskeyLoginFinalizeRequest:
    """The body of ``POST /api/v0/auth/passkey/login/finalize``."""

    challenge_id: ChallengeId
    assertion: BrowserCredential


@operation(
    "passkeyLoginOptions",
    POST,
    f"{_LOGIN}/options",
    shown_once("The challenge."),
    errors=("rate_limited",),
    body_required=False,
    changes=False,
    tag=_LOGIN_TAG,
    callers=VISITORS,
)
def begin_login(call: Call, body: PasskeyLoginOptionsRequest) -> PasskeyChallengeResponse:  # noqa: ARG001 - it has no fields
    """Get a challenge that any passkey of this service may answer."""
    return call.later.passkey_sign_in.begin()


@operation(
    "passkeyLoginFinalize",
    POST,
    f"{_LOGIN}/finalize",
    shown_once("The session."),
    errors=("rate_limited", *SIGN_IN_ERRORS),
    tag=_LOGIN_TAG,
    callers=VISITORS,
)
def finish_login(call: Call, body: PasskeyLoginFinalizeRequest) -> TokenResponse:
    """Sign in with the authenticator's answer to a challenge.

    A challenge is used up by the first answer, right or wrong.
    """
    passkey, sign_count = call.later.passkey_sign_in.finish(body.challenge_id, body.assertion)
    with call.storage.transaction():
        user = call.storage.users.by_id(passkey.user_id)
        if user is None or not call.storage.passkeys.use(passkey, sign_count):
            raise ApiError("passkey_assertion_failed", "the passkey was used or deleted at the same moment: try again")
        call.visitor.limit_user(user)
        return TokenResponse(call.visitor.begin_session(user, "passkey"))


def _owner(caller: Caller) -> str:
    """Return the owner of a caller's challenge: the account, any of whose sessions may answer it."""
    return f"account {caller.user.uuid}"
