"""Previews: disks of passed jobs that serve a port on a host of their own."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from storage.data_classes import immutable

if TYPE_CHECKING:
    from datetime import datetime


PREVIEW_OPENER = "preview"
"""The name by which previews open forks."""


class PreviewState(StrEnum):
    """The state of a preview: its VM is made when somebody looks, and ends when nobody does."""

    ASLEEP = "asleep"
    WAKING = "waking"
    AWAKE = "awake"
    GONE = "gone"


@immutable
class Preview:
    """A passed job's disk that serves a port, until ``until`` at the latest.

    ``disk`` is its snapshot. It is ``public`` if it is for everyone. ``hold_id`` is the hold of its last VM, whose
    program ``answers`` once it does; ``holding`` is true while that VM is held. ``failure`` is why it did not wake the
    last time. ``why_ended`` is a sentence, None until it is gone.
    """

    id: int
    uuid: str
    organization_id: int
    pipeline_id: int
    job_id: int
    disk: str
    public: bool
    created_at: datetime
    until: datetime
    hold_id: int | None
    answers: bool
    looked_at: datetime | None
    failure: str | None
    ended_at: datetime | None
    why_ended: str | None
    holding: bool

    @property
    def state(self) -> PreviewState:
        """The state."""
        if self.ended_at is not None:
            return PreviewState.GONE
        if not self.holding:
            return PreviewState.ASLEEP
        return PreviewState.AWAKE if self.answers else PreviewState.WAKING
