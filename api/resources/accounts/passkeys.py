"""Passkeys of the caller's account."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.bodies import answer, read_body
from api.fields import RequestBody, StoredRecord, Text, Timestamp, Uuid
from api.openapi.operations import Answer, operation
from api.sign_in.passkeys import (
    REGISTRATION_ERRORS,
    ChallengeId,
    NewCredential,
    PasskeyChallengeResponse,
)
from storage import JsonModel

if TYPE_CHECKING:
    import falcon

    import storage
    from api.middleware.authentication import Access
    from api.middleware.rate_limits import RateLimits
    from api.sign_in.account_passkeys import AccountPasskeys
    from storage import Caller, Storage


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


class PasskeyListResponse(JsonModel):
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

    def __init__(self, storage: Storage, passkeys: AccountPasskeys, access: Access, limits: RateLimits) -> None:
        self._storage = storage
        self._passkeys = passkeys
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
        begun = self._passkeys.begin(caller)
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
        made = self._passkeys.finish(caller, body.challenge_id, body.attestation, body.nickname)
        answer(resp, PasskeyRecord.of(made))

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

        With the last one all other sessions of the account end. That one is refused if it is the only way to sign in:
        the account is linked to no identity provider, and the service has no mail server for a magic link.
        """
        self._limits.limit_address(req, resp)
        caller = self._access.caller(req)
        self._limits.limit_account(caller, resp)
        self._passkeys.remove(caller, uuid)
        resp.status = 204

    def _signed_in(self, req: falcon.Request, resp: falcon.Response) -> Caller:
        self._limits.limit_address(req, resp)
        caller = self._access.session(req)
        self._limits.limit_account(caller, resp)
        return caller
