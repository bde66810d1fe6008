"""Images of the engine's own, by their aliases, as root file systems for the image store.

An engine keeps images in several forms. It unpacks any of them into an instance, which is never started, and packs that
as a plain tar.
"""

from __future__ import annotations

import io
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from actors.vms.incus.engine import part
from actors.vms.incus.instances import Instances
from actors.vms.incus.refusals import EngineError, NotFound
from actors.vms.incus.volumes import Names
from actors.vms.provider import ImageNotFound

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.vms.incus.engine import Engine
    from actors.vms.settings import IncusSettings

ROOT = "rootfs"
"""The folder in the tar that has the root file system."""

_SECONDS = 1800.0
_CONTAINER = "container"


class EngineAliases:
    """The images of the project that have an alias."""

    def __init__(self, engine: Engine, settings: IncusSettings) -> None:
        self._engine = engine
        self._names = Names(settings.prefix)
        self._instances = Instances(engine, settings.profile, self._names)

    @contextmanager
    def tar(self, alias: str) -> Iterator[IO[bytes]]:
        """Give a tar of an image, with the root file system in `ROOT`. Raises ImageNotFound and VmError."""
        image = self._image(alias)
        name = self._names.filling(image[:12])
        self._instances.remove(name)
        packed = None
        try:
            self._instances.create(name, {"type": "image", "fingerprint": image}, {}, {}, None)
            packed = self._pack(name)
            with self._engine.download(f"/1.0/images/{packed}/export", _SECONDS) as blocks:
                yield io.BufferedReader(_Blocks(blocks))
        finally:
            self._instances.remove(name)
            if packed is not None and packed != image:
                self._engine.do("DELETE", f"/1.0/images/{packed}")

    def _image(self, alias: str) -> str:
        """Return the fingerprint of an alias's image. Raises ImageNotFound and EngineError."""
        try:
            found = self._engine.get(f"/1.0/images/aliases/{part(alias)}")
        except NotFound as error:
            present = ", ".join(self._others()) or "none yet"
            message = (
                f"the engine has no image {alias!r} in the project {self._engine.project} (it has: {present}): copy it "
                f"there, such as `incus image copy images:debian/13 local: --alias {alias} --target-project "
                f"{self._engine.project}`"
            )
            raise ImageNotFound(message) from error
        if found["type"] != _CONTAINER:
            message = f"the image {alias!r} of the engine is one for {found['type']}s: use one for containers"
            raise EngineError(message)
        return str(found["target"])

    def _others(self) -> list[str]:
        """Return the aliases that are not the service's own."""
        found = [each["name"] for each in self._engine.get("/1.0/images/aliases", {"recursion": 1})]
        return sorted(name for name in found if not any(self._names.of_kind("base", [name])))

    def _pack(self, instance: str) -> str:
        """Make an image of an instance; return its fingerprint."""
        body = {"source": {"type": "instance", "name": instance}, "compression_algorithm": "none"}
        return str(self._engine.do("POST", "/1.0/images", body, seconds=_SECONDS)["fingerprint"])


class _Blocks(io.RawIOBase):
    """Blocks as a file that is read once."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        super().__init__()
        self._blocks = blocks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # a file calls it with this alone
        """Fill a part of the buffer; return its length, 0 at the end."""
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._rest = memoryview(block)
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count
