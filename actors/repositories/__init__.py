"""Repositories whose pushes are built: their mirrors, and the way from a push to its builds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from actors.repositories.fetching.git import Git
    from actors.repositories.fetching.mirror import heads_at
    from actors.repositories.fetching.remote import GitError, Remote, RemoteInvalid
    from actors.repositories.fetching.remote_host import fingerprint, host_key, new_deploy_key
    from actors.repositories.packing.history import LFS_CLEAN, Checkout, LimitedBuffer, add_history, make_history
    from actors.repositories.push_hook import (
        hook_is_outdated,
        install_hook,
        remove_hook,
        renew_hook,
        server_hook,
    )
    from actors.repositories.settings import RepositorySettings, SourceSettings
else:
    __getattr__ = on_first_use(__name__)

MIRRORS = "mirrors"
"""The folder of the state directory. Backups leave it out: it is fetched again."""
