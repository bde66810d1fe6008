"""A state directory to back up."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

from ci_daemon.backup import backup_to
from storage import (
    Build,
    Job,
    SecretScope,
    Storage,
)

SOURCE = b"an archive" * 1000


@dataclass
class Host:
    """A state directory with one running build, and its rows."""

    directory: Path
    storage: Storage
    build: Build
    job: Job

    @property
    def scope(self) -> SecretScope:
        return SecretScope(self.build.organization_id)

    def saved(self, *, with_key: bool = True) -> bytes:
        out = io.BytesIO()
        backup_to(self.directory, out, configuration=self.directory / "ci-daemon.toml", with_key=with_key)
        return out.getvalue()
