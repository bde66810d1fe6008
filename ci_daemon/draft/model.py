"""A pipeline before it is written: steps in stages, of which each waits for the one before."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping


@immutable
class DraftCache:
    """A cache policy: new each day, or whenever the command or one of the files changes."""

    files: tuple[str, ...] = ()
    daily: bool = False


DAILY = DraftCache(daily=True)


@immutable
class DraftStep:
    """One command. With a parent it starts from the parent's disk, otherwise from the image."""

    label: str
    command: str
    image: str | None = None
    parent: DraftStep | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    cache: DraftCache | None = None


@immutable
class DraftPipeline:
    """One pipeline. Parents need not stand in a stage, if a child does."""

    slug: str
    stages: tuple[tuple[DraftStep, ...], ...]
    timeout_seconds: int | None = None
