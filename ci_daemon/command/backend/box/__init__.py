"""The nouns on the box: read from the state directory and written there, as the owner of the host.

Each is imported on first use, because imports take most of a command's time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from ci_daemon.command.backend.box.backend import BoxBackend
    from ci_daemon.command.backend.box.repositories import BoxRepositories
else:
    __getattr__ = on_first_use(__name__)

__all__ = [
    "BoxBackend",
    "BoxRepositories",
]
