"""Secrets of webhooks: one for each repository, derived from the key of the service."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING

from actors.source_hosts.host import DeliveryUnsigned, Received
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from storage import Repository, Storage


@immutable
class Claim:
    """The claim of a delivery, which is not proven yet; ``remote_id`` is the host's id of a repository."""

    event: str
    delivery_id: str
    remote_id: str | None


class WebhookSecrets:
    """The secrets that hosts sign the deliveries of repositories with. Safe in any thread.

    The secret of one repository says nothing of that of another. A repository that is connected anew has a new one.
    """

    def __init__(self, storage: Storage) -> None:
        self._key = storage.vault.derive(b"webhooks of repositories")

    def of(self, repository: Repository) -> str:
        """Return the secret of a repository."""
        return hmac.new(self._key, repository.uuid.encode(), hashlib.sha256).hexdigest()

    def received(self, claim: Claim, candidates: Iterable[Repository], proves: Callable[[str], bool]) -> Received:
        """Return a delivery with the one of the candidates whose secret it proves. Raises DeliveryUnsigned.

        Its id contains the repository's, so that no other repository can use the id up.
        """
        for each in candidates:
            if proves(self.of(each)):
                return Received(claim.event, f"{each.uuid}/{claim.delivery_id}", each)
        raise DeliveryUnsigned("this is not signed with the secret of a connected repository: connect it again")


def is_signed(signature: str, secret: str, body: bytes) -> bool:
    """Tell whether a header ``sha256=HEX`` is the signature of a body; compares in constant time."""
    expected = f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"
    return hmac.compare_digest(signature.encode("latin-1", "replace"), expected.encode())
