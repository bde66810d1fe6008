"""The manifest of a backup."""

from __future__ import annotations

import json
from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotations
from dataclasses import asdict

from pydantic import TypeAdapter, ValidationError

from storage import immutable

CONFIGURATION = "ci-daemon.toml"
MANIFEST = "manifest.json"

_FORMAT = 1


class BackupError(Exception):
    """A backup that cannot be taken or restored; the message says what to do."""


class InvalidBackup(BackupError):
    """A backup that is truncated, damaged, or of another release; ``reason`` says how."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}: use another backup")
        self.reason = reason


@immutable
class ArchiveMember:
    """A file of a backup."""

    bytes: int
    sha256: str


@immutable
class Manifest:
    """The time, origin and content of a backup.

    ``key_id`` identifies the key, even if the backup does not contain it; None if the key could not be read.
    ``configuration`` is the path of the configuration file, None if there was none. ``counts`` are rows by table,
    ``members`` the files by name.
    """

    created_at: str
    release: str
    state_dir: str
    schema_version: int
    key_id: str | None
    configuration: str | None
    counts: Mapping[str, int]
    members: Mapping[str, ArchiveMember]
    format: int = _FORMAT

    def to_json(self) -> bytes:
        """Return the manifest as JSON."""
        return json.dumps(asdict(self), indent=1).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Manifest:
        """Parse a manifest. Raises BackupError."""
        try:
            manifest = TypeAdapter(cls).validate_json(text)
        except ValidationError:
            raise InvalidBackup(f"its {MANIFEST} was not written by `ci-daemon backup`") from None
        if manifest.format != _FORMAT:
            raise BackupError(f"it has format {manifest.format}: restore it with the release that took it")
        return manifest

    @property
    def bytes(self) -> int:
        """The unpacked size of all files."""
        return sum(member.bytes for member in self.members.values())
