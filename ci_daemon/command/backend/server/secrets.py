"""Secrets of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_daemon.remote import operations

if TYPE_CHECKING:
    from ci_daemon.command.backend.secrets import SecretOwner
    from ci_daemon.remote.connection import Connection
    from ci_daemon.remote.views import SecretView

__all__ = ["ServerSecrets"]


class ServerSecrets:
    """Secrets by the API."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def names(self, owner: SecretOwner) -> list[SecretView]:
        """Return the owner's secrets without their values."""
        of_pipeline = owner.pipeline is not None
        operation = operations.LIST_PIPELINE_SECRETS if of_pipeline else operations.LIST_ORGANIZATION_SECRETS
        return self._connection.call(operation, _names(owner)).data

    def put(self, owner: SecretOwner, name: str, value: str) -> SecretView:
        """Set a secret."""
        of_pipeline = owner.pipeline is not None
        operation = operations.SET_PIPELINE_SECRET if of_pipeline else operations.SET_ORGANIZATION_SECRET
        return self._connection.call(operation, {**_names(owner), "name": name}, body={"value": value})

    def remove(self, owner: SecretOwner, name: str) -> None:
        """Remove a secret."""
        of_pipeline = owner.pipeline is not None
        operation = operations.DELETE_PIPELINE_SECRET if of_pipeline else operations.DELETE_ORGANIZATION_SECRET
        self._connection.call(operation, {**_names(owner), "name": name})


def _names(owner: SecretOwner) -> dict[str, object]:
    return {"org": owner.org} if owner.pipeline is None else {"org": owner.org, "pipeline": owner.pipeline}
