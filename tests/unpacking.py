"""Sources as a job finds them."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from tests.git_repository import GitRepository


def unpacked(archive: bytes, into: Path) -> GitRepository:
    """Unpack an archive as a job would; return a repository in whose folder git runs."""
    found = GitRepository.__new__(GitRepository)
    found.__dict__ |= {
        "path": into,
        "_environ": {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"},
    }
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(into, filter="data")
    return found
