"""An image of the store: its folder holds the tree, its facts, and the time of its last use."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

from actors.vms.provider import VmError
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TREE = "tree"
"""The name of the tree in an image's folder."""

_FACTS = "image.json"
_USED = "used"


class ImageError(VmError):
    """An image cannot be made or removed; the message says what to do."""


@immutable
class Image:
    """An image of the store: ``size`` in bytes on disk, ``source`` where it came from.

    ``environment`` has the variables that the image sets for its programs. An ``on_demand`` image was pulled for a job
    and is removed when unused; ``used`` is when a job last started from it, if that was recorded.
    """

    name: str
    size: int
    source: str
    created: datetime
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    on_demand: bool = False
    used: datetime | None = None

    @property
    def identity(self) -> str:
        """A text that no other image has, not even a later one of the same name."""
        facts = (self.name, self.source, self.size, self.created.isoformat(), sorted(self.environment.items()))
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    @classmethod
    def read(cls, folder: Path) -> Image:
        """Read the facts in an image's folder. Raises FileNotFoundError."""
        facts = json.loads((folder / _FACTS).read_text(encoding="utf-8"))
        used = None
        with suppress(FileNotFoundError):
            used = datetime.fromtimestamp((folder / _USED).stat().st_mtime, UTC)
        return cls(**{**facts, "created": datetime.fromisoformat(facts["created"]), "used": used})

    def write(self, folder: Path) -> None:
        """Write the facts to an image's folder."""
        facts = {**asdict(self), "created": self.created.isoformat()}
        del facts["used"]
        (folder / _FACTS).write_text(json.dumps(facts), encoding="utf-8")


def is_complete(folder: Path) -> bool:
    """Tell whether a folder holds a whole image."""
    return (folder / _FACTS).exists()


def record_use(folder: Path) -> None:
    """Record that a job starts from the image in a folder now. Raises OSError."""
    (folder / _USED).touch()
