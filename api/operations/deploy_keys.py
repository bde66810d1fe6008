"""The deploy key of an organization, with which it fetches repositories over ssh."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from actors.repositories import new_deploy_key
from api.errors.catalog import ApiError
from api.operations.operation import GET, POST, Call, created, operation
from api.operations.things import ORGANIZATION, ThisMembership
from storage import DeployKey, Role, example, immutable

if TYPE_CHECKING:
    from datetime import datetime

    from storage import Organization, OrganizationKey, Storage

_KEY = f"{ORGANIZATION}/deploy-key"


@immutable
class OrganizationDeployKey:
    """The public half of an organization's deploy key."""

    public_key: str = example("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI ci-daemon:acme")
    created_at: datetime

    @classmethod
    def of(cls, key: OrganizationKey) -> Self:
        """Return the record of a stored key."""
        return cls(key.public_key, key.created_at)


@operation("getDeployKey", GET, _KEY, "The public half of the key.", errors=("deploy_key_not_found",))
def get_deploy_key(call: Call, membership: ThisMembership) -> OrganizationDeployKey:
    """Get the public half of the organization's deploy key, to be added at servers of git."""
    found = call.storage.organization_keys.of(membership.organization.id)
    if found is None:
        raise ApiError.not_found("deploy_key", membership.organization.slug)
    return OrganizationDeployKey.of(found)


@operation("rotateDeployKey", POST, _KEY, created("The public half of the new key."), role=Role.ADMIN)
def rotate_deploy_key(call: Call, membership: ThisMembership) -> OrganizationDeployKey:
    """Make a new deploy key for the organization; needs the role admin. The former is forgotten.

    All repositories that are fetched with it are fetched with the new one from now on.
    """
    organization = membership.organization
    made = _made(call.storage, organization)
    for repository in call.storage.repositories.of_organization(organization.id):
        credential = call.storage.repository_credentials.of(repository)
        if isinstance(credential, DeployKey) and credential.of_organization:
            call.storage.repository_checks.hasten(repository.id)
    return OrganizationDeployKey.of(made)


def key_for(storage: Storage, organization: Organization) -> tuple[OrganizationKey, bool]:
    """Return the organization's deploy key, and whether it was made just now."""
    found = storage.organization_keys.of(organization.id)
    return (_made(storage, organization), True) if found is None else (found, False)


def _made(storage: Storage, organization: Organization) -> OrganizationKey:
    made = new_deploy_key(organization.slug, "")
    return storage.organization_keys.put(organization.id, made.private_key, made.public_key)
