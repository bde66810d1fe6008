"""The images of outer layers on the engine, each published once for each content."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from actors.vms.host.vms import stamp_of
from actors.vms.incus.engine import part
from actors.vms.incus.refusals import EngineError, NotFound
from actors.vms.provider import ImageNotFound, VmError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from actors.vms.host.vms import ImageRoots
    from actors.vms.images.store_locks import StoreLocks
    from actors.vms.incus.engine import Engine
    from actors.vms.incus.names import Names

_UPLOAD_SECONDS = 1800.0
_KEY_CHARS = 20


class OuterContent(Protocol):
    """The content of one kind of outer layers' image."""

    @property
    def kind(self) -> str:
        """The word in the image's alias, of letters."""

    def digest(self) -> str:
        """Return a digest of all that is added to the tree. Raises VmError if a part is missing here."""

    def blocks(self, tree: Path) -> Iterator[bytes]:
        """Yield the image as the engine takes it. Raises VmError."""


class OuterImages:
    """The image of one kind of outer layers. Safe in any thread, and in processes that share the locks."""

    def __init__(
        self,
        engine: Engine,
        names: Names,
        store: ImageRoots,
        base: Callable[[], str],
        locks: StoreLocks,
        content: OuterContent,
    ) -> None:
        """``base`` names the image whose sshd serves the VMs."""
        self._engine = engine
        self._names = names
        self._store = store
        self._base = base
        self._locks = locks
        self._content = content

    def alias(self) -> str:
        """Return the alias of the image, which is published if it is missing. Raises VmError."""
        try:
            tree = self._store.path(self._base())
        except ImageNotFound as error:
            message = f"VMs need an image with sshd, run `ci-daemon image build`: {error}"
            raise VmError(message) from error
        key = hashlib.sha256(f"{stamp_of(tree)}\n{self._content.digest()}".encode()).hexdigest()[:_KEY_CHARS]
        alias = self._names.outer(self._content.kind, key)
        path = f"/1.0/images/aliases/{part(alias)}"
        if not self._engine.exists(path):
            with self._locks.image(f".{self._content.kind}"):  # no image's lock has this name
                if not self._engine.exists(path):
                    self._publish(alias, tree)
        return alias

    def _publish(self, alias: str, tree: Path) -> None:
        """Send the image, and remove those that it replaces; instances live on without theirs."""
        engine = self._engine
        content = _Hashed(self._content.blocks(tree))
        try:
            engine.upload("/1.0/images", content, _UPLOAD_SECONDS)
        except EngineError:
            if not content.ended or not engine.exists(f"/1.0/images/{content.fingerprint}"):
                raise
        engine.do("POST", "/1.0/images/aliases", {"name": alias, "target": content.fingerprint})
        for found in engine.get("/1.0/images/aliases", {"recursion": 1}):
            if found["name"] != alias and any(self._names.of_kind(self._content.kind, [found["name"]])):
                with suppress(NotFound):
                    engine.do("DELETE", f"/1.0/images/aliases/{part(found['name'])}")
                    image = f"/1.0/images/{found['target']}"
                    if not engine.get(image)["aliases"]:  # another service may have the same one
                        engine.do("DELETE", image)


class _Hashed:
    """A stream with its digest, by which the engine names what it has taken in."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._digest = hashlib.sha256()
        self.ended = False

    def __iter__(self) -> Iterator[bytes]:
        """Yield the blocks."""
        for block in self._blocks:
            self._digest.update(block)
            yield block
        self.ended = True

    @property
    def fingerprint(self) -> str:
        """The digest of what has been read."""
        return self._digest.hexdigest()
