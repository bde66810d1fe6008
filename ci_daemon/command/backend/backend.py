"""The choice between the box and a server, and the nouns of either."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ci_daemon.command.backend.repositories import Repositories


class Backend(Protocol):
    """The nouns of the box, or those of a server."""

    @property
    def start_command(self) -> str | None:
        """The command that starts the service, in backquotes; None if it runs."""
        ...

    @property
    def pages_url(self) -> str:
        """The address of the service's pages, without a trailing slash."""
        ...

    @property
    def repositories(self) -> Repositories:
        """The connected repositories."""
        ...
