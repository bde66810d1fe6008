"""The turns of builds in their concurrency groups."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Turn"]


@dataclass(frozen=True, slots=True)
class Turn:
    """The wait of a build in its concurrency group.

    ``running`` are the names of the builds that have its places; ``before`` others wait before this one.
    """

    group: str
    limit: int
    running: tuple[str, ...]
    before: int
