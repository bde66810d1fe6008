"""Images of the engine of the provider `incus`, for the image store."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import IO, TYPE_CHECKING

from actors.vms.incus import Engine, EngineAliases, access_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ci_daemon.config import Config

_FOLDER = "incus"
"""The folder of the state directory that has the certificates."""


@contextmanager
def engine_image(state_dir: Path, config: Config, alias: str) -> Iterator[IO[bytes]]:
    """Give a tar of the image that has an alias in the project of the configured engine.

    Raises ImageNotFound and VmError.
    """
    access = access_of(state_dir / _FOLDER, config.incus)
    with closing(Engine(access, config.incus.project)) as engine, EngineAliases(engine, config.incus).tar(alias) as tar:
        yield tar
