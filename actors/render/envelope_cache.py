"""The cache of rendered envelopes, for builds of the same archive."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from actors.render.dsl import dsl_version
from actors.render.envelope import Envelope
from actors.render.guest import program

if TYPE_CHECKING:
    from pathlib import Path

    from actors.vms import Images
    from storage import Clock, Rendered, Storage


def cache_name(organization: str, pipeline: str, archive: Path, images: Images, image: str) -> bytes:
    """Return a hash of everything that determines an envelope, except the time. Raises ImageNotFound."""
    parts = (organization, pipeline, sha256_of(archive), dsl_version(), program("load"), images.identity(image))
    return hashlib.sha256(json.dumps(parts).encode()).digest()


def sha256_of(archive: Path) -> str:
    """Return the digest of a file, in hex."""
    with archive.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def keep(storage: Storage, clock: Clock, seconds: float, name: bytes, rendered: Rendered) -> None:
    """Keep an envelope for some seconds, or until one of its cache keys would change."""
    now = clock.now()
    until = now + timedelta(seconds=seconds)
    valid_until = Envelope.parse(rendered.envelope).valid_until(now.timestamp())
    if valid_until is not None:
        until = min(until, datetime.fromtimestamp(min(valid_until, until.timestamp()), UTC))
    if until > now:
        storage.renders.keep(name, rendered, until)
