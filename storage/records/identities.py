"""Identities of users at identity providers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["Identity", "ProvenIdentity"]


@dataclass(frozen=True, slots=True)
class ProvenIdentity:
    """A person who signed in at an identity provider, as the provider says.

    ``provider`` is the provider's own name, an issuer's URL; ``subject`` is its name for the person, which never goes
    to another one. ``email`` is empty if the provider tells none, and proves nothing unless it is ``verified``.
    """

    provider: str
    subject: str
    email: str
    verified: bool
    name: str


@dataclass(frozen=True, slots=True)
class Identity:
    """A user's identity at a provider; ``email`` is the address that the provider told last."""

    id: int
    uuid: str
    user_id: int
    provider: str
    subject: str
    email: str
    created_at: datetime
    last_used_at: datetime
