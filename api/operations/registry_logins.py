"""Logins of an organization at registries of images; their passwords are never shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from api.errors.catalog import ApiError
from api.operations.operation import DELETE, GET, PUT, Call, Whole, done, operation
from api.operations.things import ORGANIZATION, ThisMembership
from storage import RegistryLogin, RegistryLoginInvalid, Role, described, immutable

if TYPE_CHECKING:
    from api.fields import RegistryPassword, RegistryUsername

_LOGINS = f"{ORGANIZATION}/registry-logins"
_LOGIN = f"{_LOGINS}/{{host}}"

RegistryLoginList = Annotated[list[RegistryLogin], Whole("The logins, without their passwords.")]


@immutable
class SetRegistryLoginRequest:
    """The body of ``PUT …/registry-logins/{host}``. A token of the registry is its password."""

    username: RegistryUsername = described("The username there.", word="NAME")
    password: RegistryPassword = described("The password, or a token; one line.")


@operation("listRegistryLogins", GET, _LOGINS, "The logins.")
def list_registry_logins(call: Call, membership: ThisMembership) -> RegistryLoginList:
    """List the organization's logins at registries by host, without their passwords."""
    return call.storage.registry_logins.of_organization(membership.organization.id)


@operation("setRegistryLogin", PUT, _LOGIN, "The login, without its password.", role=Role.ADMIN)
def set_registry_login(
    call: Call, membership: ThisMembership, host: str, body: SetRegistryLoginRequest
) -> RegistryLogin:
    """Set the login at a registry, by its host and perhaps its port; needs the role admin.

    Images of that registry are pulled with it for jobs of the organization, and for no others. What was pulled with
    the login of another username is pulled again.
    """
    try:
        return call.storage.registry_logins.put(membership.organization.id, host, body.username, body.password)
    except RegistryLoginInvalid as error:
        raise ApiError("invalid_body", str(error)) from None


@operation(
    "deleteRegistryLogin",
    DELETE,
    _LOGIN,
    done("The login is deleted."),
    role=Role.ADMIN,
    errors=("registry_login_not_found",),
)
def delete_registry_login(call: Call, membership: ThisMembership, host: str) -> None:
    """Delete the login at a registry; needs the role admin. Jobs that already run with it keep it.

    What was pulled with it is for no job any more.
    """
    if not call.storage.registry_logins.remove(membership.organization.id, host):
        raise ApiError.not_found("registry_login", host)
