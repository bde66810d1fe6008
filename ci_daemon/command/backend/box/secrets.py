"""Secrets of the box."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_daemon.command.support.lookup import find_organization, find_pipeline
from ci_daemon.command.support.session import Failure
from ci_daemon.remote.views import SecretView
from storage import SecretInvalid, SecretScope

if TYPE_CHECKING:
    from ci_daemon.command.backend.secrets import SecretOwner
    from storage import Storage

__all__ = ["BoxSecrets"]


class BoxSecrets:
    """Secrets in a storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def names(self, owner: SecretOwner) -> list[SecretView]:
        """Return the owner's secrets without their values."""
        return [SecretView.of(each) for each in self._storage.secrets.names(self._scope(owner))]

    def put(self, owner: SecretOwner, name: str, value: str) -> SecretView:
        """Set a secret."""
        scope = self._scope(owner)
        try:
            return SecretView.of(self._storage.secrets.put(scope, name, value))
        except SecretInvalid as error:
            raise Failure(str(error)) from None

    def remove(self, owner: SecretOwner, name: str) -> None:
        """Remove a secret."""
        if not self._storage.secrets.remove(self._scope(owner), name):
            raise Failure(f"{owner} has no secret {name}: `ci-daemon secret list` shows those it has")

    def _scope(self, owner: SecretOwner) -> SecretScope:
        if owner.pipeline is None:
            return SecretScope(find_organization(self._storage, owner.org).id)
        found = find_pipeline(self._storage, owner.org, owner.pipeline)
        return SecretScope(found.organization_id, found.id)
