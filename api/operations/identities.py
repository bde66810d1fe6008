"""The caller's identities at identity providers."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - the model of a record reads the annotations
from typing import Annotated

from api.errors.catalog import ApiError
from api.operations.operation import ACCOUNT, DELETE, GET, Call, Whole, done, operation
from api.operations.things import USER, ThisUser
from storage import LastIdentity, example, immutable, showing

_IDENTITIES = f"{USER}/identities"


@immutable
class IdentityRecord:
    """An identity of the caller at a provider: ``google``, ``github``, the name of an issuer, or its URL.

    ``email`` is what the provider told at the last sign-in; it may be another than the account's.
    """

    uuid: str
    provider: str = example("google")
    email: str
    created_at: datetime
    last_used_at: datetime


IdentityList = Annotated[
    list[IdentityRecord], Whole("The caller's identities, oldest first.", "IdentityListResponse", "identities")
]


@operation("listIdentities", GET, _IDENTITIES, "The identities.", callers=ACCOUNT)
def list_identities(call: Call, user: ThisUser) -> IdentityList:
    """List the identities with which the caller signs in at providers."""
    name_of = call.later.identities.name_of
    found = call.storage.identities.of_user(user.id)
    return [showing(IdentityRecord, each, provider=name_of(each.provider)) for each in found]


@operation(
    "deleteIdentity",
    DELETE,
    f"{_IDENTITIES}/{{id}}",
    done("Nobody can sign in with it to this account."),
    errors=("identity_not_found", "identity_last_credential"),
    callers=ACCOUNT,
)
def delete_identity(call: Call, user: ThisUser, id: str) -> None:
    """Delete an identity.

    The last one is refused if it is the only way to sign in: the account has no passkey, and the service has no
    mail server for a magic link.
    """
    try:
        if not call.storage.identities.remove(user.id, id, others_suffice=call.engine.sends_mail):
            raise ApiError.not_found("identity", id)
    except LastIdentity as error:
        raise ApiError("identity_last_credential", str(error)) from None
