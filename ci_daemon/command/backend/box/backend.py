"""The nouns of a state directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_daemon.command.backend import box
from ci_daemon.host.lock import served_by

if TYPE_CHECKING:
    from ci_daemon.command.backend.repositories import Repositories
    from ci_daemon.command.support.session import Session
    from storage import Storage


class BoxBackend:
    """The nouns in an open storage.

    ``storage`` debits nothing: what starts a build opens it with the prices of the configuration.
    """

    def __init__(self, session: Session, storage: Storage) -> None:
        self._session = session
        self._storage = storage

    @property
    def start_command(self) -> str | None:
        """The command that starts the service, in backquotes; None if it runs."""
        runs = served_by(self._session.state_dir) is not None
        return None if runs else self._session.start_command

    @property
    def pages_url(self) -> str:
        """The address of the service's pages, without a trailing slash."""
        return self._session.config().http.pages_url

    @property
    def repositories(self) -> Repositories:
        """The connected repositories."""
        return box.BoxRepositories(self._session, self._storage)
