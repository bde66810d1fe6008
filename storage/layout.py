"""What a state directory holds of the storage: the names of its files and folders."""

from __future__ import annotations

__all__ = ["ARTIFACTS", "DATABASE", "KEY", "LOGS", "SOURCES"]

ARTIFACTS = "artifacts"
DATABASE = "ci-daemon.sqlite3"
KEY = "secret.key"
LOGS = "logs"
SOURCES = "sources"
