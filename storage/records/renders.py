"""Builds whose pipeline is rendered here, and what came of that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["Render", "Rendered"]


@dataclass(frozen=True, slots=True)
class Render:
    """The rendering of a build. ``source_url`` is where its archive is to be had, None where the host has it.

    ``lease_id`` is the VM in which it was begun last; ``rejected`` says that it ended in a refusal.
    """

    build_id: int
    organization_id: int
    source_url: str | None
    lease_id: int | None
    finished_at: datetime | None
    rejected: bool


@dataclass(frozen=True, slots=True)
class Rendered:
    """What the pipeline files of an archive came to: their discovery envelope as JSON, and what they printed."""

    envelope: str
    log: bytes
