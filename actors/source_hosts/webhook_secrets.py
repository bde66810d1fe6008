"""Secrets of webhooks: one for each repository, derived from the key of the service."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage import Repository, Storage

__all__ = ["WebhookSecrets", "is_signed"]


class WebhookSecrets:
    """The secrets that hosts sign the deliveries of repositories with. Safe in any thread.

    The secret of one repository says nothing of that of another. A repository that is connected anew has a new one.
    """

    def __init__(self, storage: Storage) -> None:
        self._key = storage.vault.derive(b"webhooks of repositories")

    def of(self, repository: Repository) -> str:
        """Return the secret of a repository."""
        return hmac.new(self._key, repository.uuid.encode(), hashlib.sha256).hexdigest()


def is_signed(signature: str, secret: str, body: bytes) -> bool:
    """Tell whether a header ``sha256=HEX`` is the signature of a body; compares in constant time."""
    expected = f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"
    return hmac.compare_digest(signature.encode("latin-1", "replace"), expected.encode())
