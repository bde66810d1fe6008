"""Passkeys of the caller's account."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel

from api.bodies import answer, read_body
from api.errors.responses import ApiError
from api.fields import RequestBody, StoredRecord, Text, Timestamp, Uuid
from api.openapi.operations import Answer, operation
from api.sign_in.passkeys import (
    REGISTRATION_ERRORS,
    ChallengeId,
    NewCredential,
    PasskeyChallengeResponse,
    PasskeyRegistration,
)
from storage import LastPasskey, PasskeyPurpose

if TYPE_CHECKING:
    import falcon

    import storage
    from api.engine import EngineInterface
    from api.middleware.authentication import Access
    from api.middleware.rate_limits import RateLimits
    from api.sign_in.relying_party import RelyingParty
    from storage import Caller, Storage

__all__ = [
    "PasskeyListResponse",
    "PasskeyRecord",
    "PasskeyRegisterFinalizeRequest",
    "PasskeyRegisterOptionsResponse",
    "PasskeysResource",
]


class PasskeyRecord(StoredRecord):
    """A passkey; ``aaguid`` names the model of its authenticator."""

    uuid: Uuid
    nickname: str
    aaguid: Uuid
    created_at: Timestamp
    last_used_at: Timestamp | None

    @classmethod
    def of(cls, passkey: storage.Passkey) -> PasskeyRecord:
        """Return the record of a stored passkey."""
        return cls.showing(passkey)


class PasskeyListResponse(BaseModel):
    """The caller's passkeys."""

    passkeys: list[PasskeyRecord]


class PasskeyRegisterOptionsResponse(PasskeyChallengeResponse):
    """A challenge for an authenticator of the caller."""


class PasskeyRegisterFinalizeRequest(RequestBody):
    """The body of ``POST /api/v0/auth/passkey/register/finalize``; the default nickname is ``Passkey``."""

    challenge_id: ChallengeId
    attestation: NewCredential
    nickname: Text | None = None


class PasskeysResource:
    """``/api/v0/auth/passkey/register/…`` and ``/api/v0/user/passkeys``.

    A passkey makes sessions, so adding one needs a session, not an API key.
    """

    def __init__(
        self, storage: Storage, engine: EngineInterface, party: RelyingParty, access: Access, limits: RateLimits
    ) -> None:
        self._storage = storage
        self._engine = engine
        self._registration = PasskeyRegistration(storage, party)
        self._access = access
        self._limits = limits

    @operation(
        "passkeyRegisterOptions",
        Answer(200, "The challenge.", PasskeyRegisterOptionsResponse),
        errors=("session_required",),
        changes=False,
    )
    def on_post_options(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Get a challenge for one more passkey of the caller; needs a session token."""
        caller = self._signed_in(req, resp)
        user = caller.user
        begun = self._registration.begin(
            PasskeyPurpose.REGISTRATION,
            _owner(caller),
            handle=self._storage.passkeys.handle(user.id),
            email=user.email,
            name=user.name,
            known=self._storage.passkeys.of_user(user.id),
        )
        resp.cache_control = ["no-store"]
        answer(resp, PasskeyRegisterOptionsResponse(challenge_id=begun.challenge_id, options=begun.options))

    @operation(
        "passkeyRegisterFinalize",
        Answer(200, "The passkey.", PasskeyRecord),
        body=PasskeyRegisterFinalizeRequest,
        errors=("session_required", *REGISTRATION_ERRORS),
    )
    def on_post_finalize(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Add the passkey that answered a challenge to the caller's account; needs a session token."""
        caller = self._signed_in(req, resp)
        body = read_body(req, PasskeyRegisterFinalizeRequest)
        nickname = (body.nickname or "").strip()
        handle, made = self._registration.finish(
            PasskeyPurpose.REGISTRATION, _owner(caller), body.challenge_id, body.attestation
        )
        answer(resp, PasskeyRecord.of(self._registration.store(caller.user.id, handle, made, nickname)))

    @operation("listPasskeys", Answer(200, "The passkeys.", PasskeyListResponse))
    def on_get_list(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List the caller's passkeys, oldest first."""
        self._limits.limit_address(req, resp)
        caller = self._access.caller(req)
        self._limits.limit_account(caller, resp)
        passkeys = self._storage.passkeys.of_user(caller.user.id)
        answer(resp, PasskeyListResponse(passkeys=[PasskeyRecord.of(each) for each in passkeys]))

    @operation(
        "deletePasskey",
        Answer(204, "The passkey is deleted."),
        errors=("passkey_not_found", "passkey_last_credential"),
    )
    def on_delete(self, req: falcon.Request, resp: falcon.Response, uuid: str) -> None:
        """Delete one of the caller's passkeys.

        With the last one all sessions of the account end. That one is refused if it is the only way to sign in: the
        account is linked to no identity provider, and the service has no mail server for a magic link.
        """
        self._limits.limit_address(req, resp)
        caller = self._access.caller(req)
        self._limits.limit_account(caller, resp)
        try:
            with self._storage.transaction():
                left = self._storage.passkeys.remove(caller.user.id, uuid, others_suffice=self._has_other_ways(caller))
                if left == 0:
                    self._storage.tokens.end_sessions(caller.user.id)
        except LastPasskey as error:
            raise ApiError("passkey_last_credential", str(error)) from None
        if left is None:
            raise ApiError("passkey_not_found", "you have no passkey with this ID")
        resp.status = 204

    def _has_other_ways(self, caller: Caller) -> bool:
        """Tell whether the caller can sign in without a passkey: by a magic link or an identity provider."""
        return self._engine.sends_mail or bool(self._storage.identities.of_user(caller.user.id))

    def _signed_in(self, req: falcon.Request, resp: falcon.Response) -> Caller:
        self._limits.limit_address(req, resp)
        caller = self._access.session(req)
        self._limits.limit_account(caller, resp)
        return caller


def _owner(caller: Caller) -> str:
    """Return the owner of a caller's challenge: the account, of which any session may answer it."""
    return f"account {caller.user.uuid}"
