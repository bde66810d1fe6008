"""A pipeline before it is written: steps in stages, of which each waits for the one before."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

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
    """One command. With a parent it starts from the parent's disk, otherwise from the image.

    With ``only`` it runs for these events alone, and passes at once for the others of its pipeline.
    """

    label: str
    command: str
    image: str | None = None
    parent: DraftStep | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    cache: DraftCache | None = None
    timeout_seconds: int | None = None
    runner_args: Mapping[str, object] = field(default_factory=dict)
    only: tuple[Trigger, ...] = ()


@immutable
class Pushes:
    """A trigger: pushes to branches, or of tags."""

    branches: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


@immutable
class PullRequests:
    """A trigger: pull requests to these branches; to any if there is none."""

    branches: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


Trigger: TypeAlias = "Pushes | PullRequests"


@immutable
class DraftPipeline:
    """One pipeline. Parents need not stand in a stage, if a child does."""

    slug: str
    stages: tuple[tuple[DraftStep, ...], ...]
    name: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    triggers: tuple[Trigger, ...] = ()
    timeout_seconds: int | None = None
