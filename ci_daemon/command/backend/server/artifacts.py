"""Artifacts of a server."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from ci_daemon.remote import operations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ci_daemon.command.support.names import BuildName
    from ci_daemon.remote.connection import Connection
    from ci_daemon.remote.download import OpenFile
    from ci_daemon.remote.views import ArtifactView

__all__ = ["ServerArtifacts"]


class ServerArtifacts:
    """Artifacts by the API."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of_build(self, name: BuildName) -> list[ArtifactView]:
        """Return a build's artifacts by job, in the order in which the jobs ended."""
        return list(self._connection.items(operations.LIST_ARTIFACTS, asdict(name)))

    def opener(self, name: BuildName, artifact: ArtifactView) -> OpenFile:
        """Return the way to open an artifact's file."""
        names = {**asdict(name), "id": artifact.id}

        @contextmanager
        def open_from(start: int) -> Iterator[Iterator[bytes]]:
            with self._connection.stream(operations.DOWNLOAD_ARTIFACT, names, start) as (chunks, _):
                yield chunks

        return open_from
