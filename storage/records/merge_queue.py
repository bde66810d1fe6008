"""Entries of merge queues."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from storage.data_classes import immutable

if TYPE_CHECKING:
    from datetime import datetime


class MergeState(StrEnum):
    """The state of an entry of a merge queue.

    ``queued``: nothing is built for it now. ``building``: its merge is built, on top of those before it. ``landed``:
    the merge that was built is in the target. ``thrown_out``: it is bad, or cannot be landed. ``left``: somebody
    removed it, or it is not what was added any more.
    """

    QUEUED = "queued"
    BUILDING = "building"
    LANDED = "landed"
    THROWN_OUT = "thrown_out"
    LEFT = "left"


@immutable
class NewMerge:
    """A branch or pull request to be queued.

    ``target`` may be left to its pull request. With ``head`` it is merged only if it is at this commit.
    """

    pull_request: int | None = None
    branch: str | None = None
    target: str | None = None
    head: str | None = None


@immutable
class QueuedMerge:
    """A branch or pull request in a merge queue; its place is that among the entries of its target, by id.

    ``branch``, ``target`` and ``head`` are None until they are looked up. ``merge_commit`` is the merge of ``head``
    into ``base_commit`` that is built, which is what lands. ``reason`` says in words why it waits or has ended.
    """

    id: int
    uuid: str
    repository_id: int
    pull_request: int | None
    branch: str | None
    target: str | None
    head: str | None
    state: MergeState
    reason: str
    base_commit: str | None
    merge_commit: str | None
    added_by: str
    added_at: datetime
    ended_at: datetime | None

    @property
    def name(self) -> str:
        """Its name for people: that of its branch, with the number of its pull request."""
        if self.pull_request is None:
            return self.branch or ""
        return f"#{self.pull_request}" if self.branch is None else f"{self.branch} (#{self.pull_request})"

    @property
    def is_open(self) -> bool:
        """True if it has not ended."""
        return self.ended_at is None

    @property
    def candidate(self) -> str:
        """The name of a branch for its builds; nobody makes one."""
        return f"merge-queue/{self.target}"

    @property
    def ref(self) -> str:
        """The full name by which its builds are told from those of other entries."""
        return f"refs/heads/{self.candidate}/{self.id}"
