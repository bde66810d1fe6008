"""Passkey ceremonies: a challenge for an authenticator, and its answer (wire-decisions.md, "Sign-in")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, WithJsonSchema

from api.errors.catalog import ApiError
from api.fields import UUID_SCHEMA, Text
from api.sign_in import webauthn
from api.sign_in.browser_credentials import CredentialUnreadable, read_assertion, read_attestation
from api.sign_in.webauthn import AnswerRefused, UserNotVerified
from storage import PasskeyPurpose, PasskeyTaken, TooManyPasskeys, example, immutable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from api.sign_in.relying_party import RelyingParty
    from storage import NewPasskey, Passkey, PasskeyChallenge, Storage, Uuid

REGISTRATION_ERRORS = (
    "passkey_challenge_invalid",
    "passkey_registration_failed",
    "passkey_user_verification_required",
    "passkey_already_registered",
)
SIGN_IN_ERRORS = (
    "passkey_challenge_invalid",
    "passkey_unknown_credential",
    "passkey_assertion_failed",
    "passkey_user_verification_required",
)

_DEFAULT_NICKNAME = "Passkey"

ChallengeId = Annotated[Text, WithJsonSchema(UUID_SCHEMA)]

_CLIENT_DATA = "eyJ0eXBlIjoid2ViYXV0aG4ifQ"
_CREDENTIAL_ID = "q3Zr1LxV0bT8sYkN5wPd7g"


def _credential_example(**response: str) -> dict[str, Any]:
    response = {"clientDataJSON": _CLIENT_DATA, **response}
    return {"id": _CREDENTIAL_ID, "rawId": _CREDENTIAL_ID, "type": "public-key", "response": response}


NewCredential = Annotated[dict[str, Any], Field(examples=[_credential_example(attestationObject="o2NmbXRkbm9uZQ")])]
"""The result of `navigator.credentials.create`, with binary fields in base64url."""

BrowserCredential = Annotated[
    dict[str, Any], Field(examples=[_credential_example(authenticatorData="SZYN5Q", signature="MEUC", userHandle="AA")])
]
"""The result of `navigator.credentials.get`, with binary fields in base64url."""

OPTIONS_EXAMPLE = {"challenge": _CREDENTIAL_ID, "timeout": 300_000}


@immutable
class PasskeyChallengeResponse:
    """A challenge for an authenticator: its ID, and the options for the browser, good for 300 seconds."""

    challenge_id: Uuid
    options: dict[str, Any] = example(OPTIONS_EXAMPLE)


class PasskeyRegistration:
    """Makes passkeys: for a sign-up, a recovery, or an account that is signed in. Safe in any thread."""

    def __init__(self, storage: Storage, party: RelyingParty) -> None:
        self._storage = storage
        self._party = party

    def begin(
        self,
        purpose: PasskeyPurpose,
        owner: str,
        *,
        handle: bytes,
        email: str,
        name: str,
        known: Iterable[Passkey] = (),
    ) -> PasskeyChallengeResponse:
        """Return a challenge that only its owner can answer, for this purpose.

        Args:
            purpose: what the passkey is for.
            owner: what only the caller can present again, such as the token of a link.
            handle: what the account is called in its passkeys.
            email: the account's address.
            name: the person's name; it may be empty.
            known: the account's passkeys, whose authenticators shall not make another one.
        """
        challenge = self._storage.passkey_challenges.issue(purpose, owner, handle)
        options = webauthn.creation_options(self._party, challenge.challenge, handle, email, name, known)
        return PasskeyChallengeResponse(challenge_id=challenge.uuid, options=options)

    def finish(
        self, purpose: PasskeyPurpose, owner: str, challenge_id: str, attestation: dict[str, Any]
    ) -> tuple[bytes, NewPasskey]:
        """Use up a challenge; return the account's handle and its new passkey, which is not stored yet.

        Raises ApiError ``passkey_registration_failed``, ``passkey_challenge_invalid`` or
        ``passkey_user_verification_required``.
        """
        try:
            read = read_attestation(attestation)
            challenge = _taken(self._storage, challenge_id, purpose, owner)
            made = webauthn.verify_attestation(self._party, challenge.challenge, read)
        except CredentialUnreadable as error:
            raise ApiError("passkey_registration_failed", f"attestation: {error}") from None
        except AnswerRefused as error:
            raise ApiError("passkey_registration_failed", f"the passkey is not accepted: {error}") from None
        except UserNotVerified:
            raise _user_not_verified() from None
        if challenge.handle is None:
            raise AssertionError("a challenge for a new passkey has the handle of its account")
        return challenge.handle, made

    def store(self, user_id: int, handle: bytes, made: NewPasskey, nickname: str | None = None) -> Passkey:
        """Add a passkey to an account, in the caller's transaction if there is one.

        Raises ApiError ``passkey_already_registered`` or ``passkey_registration_failed``.
        """
        try:
            return self._storage.passkeys.add(user_id, handle, made, nickname or _DEFAULT_NICKNAME)
        except PasskeyTaken as error:
            raise ApiError("passkey_already_registered", str(error)) from None
        except TooManyPasskeys as error:
            raise ApiError("passkey_registration_failed", str(error)) from None


class PasskeySignIn:
    """Checks who signs in with a passkey. Safe in any thread."""

    def __init__(self, storage: Storage, party: RelyingParty) -> None:
        self._storage = storage
        self._party = party

    def begin(self) -> PasskeyChallengeResponse:
        """Return a challenge that any passkey may answer."""
        challenge = self._storage.passkey_challenges.issue(PasskeyPurpose.SIGN_IN, "")
        options = webauthn.request_options(self._party, challenge.challenge)
        return PasskeyChallengeResponse(challenge_id=challenge.uuid, options=options)

    def finish(self, challenge_id: str, assertion: dict[str, Any]) -> tuple[Passkey, int]:
        """Use up a challenge; return the passkey that answered it, and its new sign counter.

        Raises ApiError, one of `SIGN_IN_ERRORS`.
        """
        try:
            read = read_assertion(assertion)
        except CredentialUnreadable as error:
            raise ApiError("passkey_assertion_failed", f"assertion: {error}") from None
        challenge = _taken(self._storage, challenge_id, PasskeyPurpose.SIGN_IN, "")
        passkey = self._storage.passkeys.by_credential(read.credential_id)
        if passkey is None:
            raise ApiError("passkey_unknown_credential", "no account has this passkey: it was deleted, or never made")
        try:
            return passkey, webauthn.verify_assertion(self._party, challenge.challenge, passkey, read)
        except AnswerRefused as error:
            raise ApiError("passkey_assertion_failed", f"the passkey is not accepted: {error}") from None
        except UserNotVerified:
            raise _user_not_verified() from None


def _taken(storage: Storage, challenge_id: str, purpose: PasskeyPurpose, owner: str) -> PasskeyChallenge:
    challenge = storage.passkey_challenges.take(challenge_id, purpose, owner)
    if challenge is None:
        raise ApiError("passkey_challenge_invalid", "the challenge is unknown, used, expired or for another purpose")
    return challenge


def _user_not_verified() -> ApiError:
    return ApiError(
        "passkey_user_verification_required", "the authenticator did not ask for a PIN, a fingerprint or a face"
    )
