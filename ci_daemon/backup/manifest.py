"""The manifest of a backup."""

from __future__ import annotations

import json
from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotations
from dataclasses import asdict, dataclass

from pydantic import TypeAdapter, ValidationError

__all__ = ["CONFIGURATION", "MANIFEST", "BackupError", "Manifest", "Member", "Unusable"]

CONFIGURATION = "ci-daemon.toml"
MANIFEST = "manifest.json"

_FORMAT = 1


class BackupError(Exception):
    """A backup that cannot be taken or restored; the message says what to do."""


class Unusable(BackupError):
    """A backup that is torn, damaged, or of another release; ``fault`` says how."""

    def __init__(self, fault: str) -> None:
        super().__init__(f"{fault}: use another backup")
        self.fault = fault


@dataclass(frozen=True, slots=True)
class Member:
    """A file of a backup."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
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
    members: Mapping[str, Member]
    format: int = _FORMAT

    def encoded(self) -> bytes:
        """Return it as JSON for the archive."""
        return json.dumps(asdict(self), indent=1).encode()

    @classmethod
    def decoded(cls, text: bytes) -> Manifest:
        """Parse a manifest. Raises BackupError."""
        try:
            manifest = TypeAdapter(cls).validate_json(text)
        except ValidationError:
            raise Unusable(f"{MANIFEST} in it is not what `ci-daemon backup` writes") from None
        if manifest.format != _FORMAT:
            raise BackupError(f"it has format {manifest.format}: restore it with the release that took it")
        return manifest

    @property
    def bytes(self) -> int:
        """The unpacked size of all files."""
        return sum(member.bytes for member in self.members.values())
