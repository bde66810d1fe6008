"""The body of a plain git delivery: the lines that git gives to a post-receive hook. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PushedRef", "pushed_refs"]

_LINE = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64}) ([0-9a-f]{40}|[0-9a-f]{64}) (refs/(?:heads|tags)/\S+)")


@dataclass(frozen=True, slots=True)
class PushedRef:
    """A head that a push moved; the ``old`` commit is None for a new one, ``new`` for a deleted one.

    Of an annotated tag these are the tag's object, not its commit.
    """

    ref: str
    old: str | None
    new: str | None


def pushed_refs(body: bytes) -> Iterator[PushedRef]:
    """Yield the branches and tags of a delivery, without lines that are not of this form."""
    for line in body.decode(errors="replace").splitlines():
        match = _LINE.fullmatch(line)
        if match is not None:
            old, new, ref = match.groups()
            yield PushedRef(ref, old if old.strip("0") else None, new if new.strip("0") else None)
