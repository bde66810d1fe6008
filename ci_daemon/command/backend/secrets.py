"""Secrets, on the box or of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from storage import immutable

if TYPE_CHECKING:
    from ci_daemon.remote.views import SecretView

__all__ = ["SecretOwner", "Secrets"]


@immutable
class SecretOwner:
    """An organization, or one of its pipelines, by slugs."""

    org: str
    pipeline: str | None

    def __str__(self) -> str:
        return self.org if self.pipeline is None else f"{self.org}/{self.pipeline}"


class Secrets(Protocol):
    """Secrets of organizations and pipelines. All methods raise Failure, RequestFailed and StorageError."""

    def names(self, owner: SecretOwner) -> list[SecretView]:
        """Return the owner's secrets without their values."""
        ...

    def put(self, owner: SecretOwner, name: str, value: str) -> SecretView:
        """Set a secret."""
        ...

    def remove(self, owner: SecretOwner, name: str) -> None:
        """Remove a secret."""
        ...
