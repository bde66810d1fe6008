"""Files that jobs kept, on the box or of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ci_daemon.command.support.names import BuildName
    from ci_daemon.remote.download import OpenFile
    from ci_daemon.remote.views import ArtifactView

__all__ = ["Artifacts"]


class Artifacts(Protocol):
    """Artifacts of builds. All methods raise Failure, RequestFailed and StorageError."""

    def of_build(self, name: BuildName) -> list[ArtifactView]:
        """Return a build's artifacts by job, in the order in which the jobs ended."""
        ...

    def opener(self, name: BuildName, artifact: ArtifactView) -> OpenFile:
        """Return the way to open an artifact's file."""
        ...
