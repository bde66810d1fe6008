"""The source hosts of a configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.source_hosts import PlainGit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.source_hosts import SourceHost
    from storage import Storage

__all__ = ["open_source_hosts"]


def open_source_hosts(storage: Storage) -> Mapping[str, SourceHost]:
    """Return the source hosts by name; those that are not configured refuse deliveries."""
    hosts: tuple[SourceHost, ...] = (PlainGit(storage),)
    return {each.provider: each for each in hosts}
