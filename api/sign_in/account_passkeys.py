"""Passkeys of an account that is signed in: adding and deleting them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from api.errors.catalog import ApiError
from api.sign_in.passkeys import PasskeyChallengeResponse, PasskeyRegistration
from storage import LastPasskey, PasskeyPurpose

if TYPE_CHECKING:
    from api.engine import EngineInterface
    from api.sign_in.relying_party import RelyingParty
    from storage import Caller, Passkey, Storage


class AccountPasskeys:
    """The passkeys of the caller, for the API and for the page of the account. Safe in any thread."""

    def __init__(self, storage: Storage, engine: EngineInterface, party: RelyingParty) -> None:
        self._storage = storage
        self._engine = engine
        self._registration = PasskeyRegistration(storage, party)

    def begin(self, caller: Caller) -> PasskeyChallengeResponse:
        """Return a challenge for one more passkey, which any session of the account may answer."""
        user = caller.user
        return self._registration.begin(
            PasskeyPurpose.REGISTRATION,
            _owner(caller),
            handle=self._storage.passkeys.handle(user.id),
            email=user.email,
            name=user.name,
            known=self._storage.passkeys.of_user(user.id),
        )

    def finish(
        self, caller: Caller, challenge_id: str, attestation: dict[str, Any], nickname: str | None = None
    ) -> Passkey:
        """Add the passkey that answered a challenge.

        Raises ApiError with one of `REGISTRATION_ERRORS`.
        """
        handle, made = self._registration.finish(PasskeyPurpose.REGISTRATION, _owner(caller), challenge_id, attestation)
        return self._registration.store(caller.user.id, handle, made, (nickname or "").strip())

    def remove(self, caller: Caller, uuid: str) -> None:
        """Delete a passkey; with the last one all sessions of the account end but the caller's own.

        Raises ApiError ``passkey_not_found`` or ``passkey_last_credential``.
        """
        user_id = caller.user.id
        others_suffice = self._engine.sends_mail or bool(self._storage.identities.of_user(user_id))
        try:
            with self._storage.transaction():
                left = self._storage.passkeys.remove(user_id, uuid, others_suffice=others_suffice)
                if left == 0:
                    self._storage.tokens.end_sessions(user_id, but=caller.token_id)
        except LastPasskey as error:
            raise ApiError("passkey_last_credential", str(error)) from None
        if left is None:
            raise ApiError("passkey_not_found", "you have no passkey with this ID")


def _owner(caller: Caller) -> str:
    """Return the owner of a caller's challenge: the account."""
    return f"account {caller.user.uuid}"
