"""Secrets without their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["Secret", "SecretScope"]


@dataclass(frozen=True, slots=True)
class SecretScope:
    """The owner of a secret: a pipeline, or a whole organization if ``pipeline_id`` is None."""

    organization_id: int
    pipeline_id: int | None = None


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret's name, and when it was first and last set."""

    name: str
    created_at: datetime
    updated_at: datetime
