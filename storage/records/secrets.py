"""What is known of a secret without its value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["Secret", "SecretScope"]


@dataclass(frozen=True, slots=True)
class SecretScope:
    """Whose a secret is: one pipeline's, or without one all of an organization's."""

    organization_id: int
    pipeline_id: int | None = None


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret's name, when it was first set and when it was set last."""

    name: str
    created_at: datetime
    updated_at: datetime
