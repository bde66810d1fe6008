"""Artifacts of the box."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from ci_daemon.command.support.lookup import find_build
from ci_daemon.command.support.session import Failure
from ci_daemon.remote.views import ArtifactView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_daemon.command.support.names import BuildName
    from ci_daemon.remote.download import OpenFile
    from storage import Storage

__all__ = ["BoxArtifacts"]

_PAGE_SIZE = 1000
_BLOCK = 1 << 20


class BoxArtifacts:
    """Artifacts in a storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def of_build(self, name: BuildName) -> list[ArtifactView]:
        """Return a build's artifacts by job, in the order in which the jobs ended."""
        build = find_build(self._storage, name)
        page = self._storage.artifacts.page_of_build(build.id, _PAGE_SIZE, None)
        found = list(page.rows)
        while page.next_key is not None:
            page = self._storage.artifacts.page_of_build(build.id, _PAGE_SIZE, page.next_key)
            found += page.rows
        return [ArtifactView.of(each) for each in found]

    def opener(self, name: BuildName, artifact: ArtifactView) -> OpenFile:
        """Return the way to open an artifact's file. Raises Failure if it was removed."""
        build = find_build(self._storage, name)
        if (expired := self._storage.artifacts.expired_at(build.id)) is not None:
            raise Failure(f"the artifacts of build {name} were kept until {expired:%Y-%m-%d} ([retention])")
        stored = self._storage.artifacts.find(build.id, artifact.id)
        if stored is None:
            raise Failure(f"build {name} has no artifact {artifact.id} any more")
        path = self._storage.artifacts.path(stored)

        @contextmanager
        def open_from(start: int) -> Iterator[Iterator[bytes]]:
            with path.open("rb") as file:
                file.seek(start)
                yield iter(partial(file.read, _BLOCK), b"")

        return open_from
