"""The caller's identities at identity providers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from api.bodies import answer
from api.errors.catalog import ApiError
from api.fields import StoredRecord, Timestamp, Uuid
from api.openapi.operations import Answer, operation
from storage import JsonModel, LastIdentity

if TYPE_CHECKING:
    import falcon

    import storage
    from api.engine import EngineInterface
    from api.middleware.authentication import Access
    from api.middleware.rate_limits import RateLimits
    from api.sign_in.providers.configured import IdentityProviders
    from storage import Caller, Storage


class IdentityRecord(StoredRecord):
    """An identity of the caller at a provider: ``google``, ``github``, the name of an issuer, or its URL.

    ``email`` is what the provider told at the last sign-in; it may be another than the account's.
    """

    id: Uuid
    provider: Annotated[str, Field(examples=["google"])]
    email: str
    created_at: Timestamp
    last_used_at: Timestamp

    @classmethod
    def of(cls, identity: storage.Identity, providers: IdentityProviders) -> IdentityRecord:
        """Return the record of a stored identity."""
        return cls.showing(identity, id=identity.uuid, provider=providers.name_of(identity.provider))


class IdentityListResponse(JsonModel):
    """The caller's identities, oldest first."""

    identities: list[IdentityRecord]


class IdentitiesResource:
    """``/api/v0/user/identities``. Signing in with a provider adds one."""

    def __init__(
        self,
        storage: Storage,
        engine: EngineInterface,
        providers: IdentityProviders,
        access: Access,
        limits: RateLimits,
    ) -> None:
        self._storage = storage
        self._engine = engine
        self._providers = providers
        self._access = access
        self._limits = limits

    @operation("listIdentities", Answer(200, "The identities.", IdentityListResponse))
    def on_get_list(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List the identities with which the caller signs in at providers."""
        self._limits.limit_address(req, resp)
        caller = self._access.caller(req)
        self._limits.limit_account(caller, resp)
        found = self._storage.identities.of_user(caller.user.id)
        answer(resp, IdentityListResponse(identities=[IdentityRecord.of(each, self._providers) for each in found]))

    @operation(
        "deleteIdentity",
        Answer(204, "Nobody can sign in with it to this account."),
        errors=("identity_not_found", "identity_last_credential"),
    )
    def on_delete(self, req: falcon.Request, resp: falcon.Response, id: str) -> None:
        """Delete an identity.

        The last one is refused if it is the only way to sign in: the account has no passkey, and the service has no
        mail server for a magic link.
        """
        self._limits.limit_address(req, resp)
        caller = self._access.caller(req)
        self._limits.limit_account(caller, resp)
        remove_identity(self._storage, self._engine, caller, id)
        resp.status = 204


def remove_identity(storage: Storage, engine: EngineInterface, caller: Caller, uuid: str) -> None:
    """Delete an identity of the caller.

    Raises ApiError ``identity_not_found`` or ``identity_last_credential``.
    """
    try:
        if not storage.identities.remove(caller.user.id, uuid, others_suffice=engine.sends_mail):
            raise ApiError.not_found("identity", uuid)
    except LastIdentity as error:
        raise ApiError("identity_last_credential", str(error)) from None
