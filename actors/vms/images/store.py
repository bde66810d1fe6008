"""The image store: a folder of trees, for any number of processes and state directories at once."""

from __future__ import annotations

import fcntl
import json
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING

from actors.vms.images.debian import Recipe
from actors.vms.images.names import check_name, folder_of, name_of
from actors.vms.images.tree import Tree, missing_programs
from actors.vms.provider import ImageNotFound, VmError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from actors.vms.sandbox.userns import IdMap

__all__ = ["Image", "ImageError", "ImageStore"]

_TREE = "tree"
_FACTS = "image.json"
_MAKING = ".making-"
_LOCKS = ".locks"


class ImageError(VmError):
    """An image cannot be made or removed; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image of the store: ``size`` in bytes on disk, ``source`` where it came from."""

    name: str
    size: int
    source: str
    created: datetime


class ImageStore:
    """Keeps every image as ``FOLDER/tree`` with its facts beside it; the tree belongs to the VMs' ids.

    An image appears whole or not at all, and is never changed. What a crash leaves behind is removed by whoever makes
    or removes an image next. Every call blocks and may be made by any thread of any process.
    """

    def __init__(self, folder: Path, idmap: IdMap) -> None:
        self._folder = folder
        self._idmap = idmap

    def names(self) -> list[str]:
        """Name every image."""
        try:
            found = [place.name for place in self._folder.iterdir() if not place.name.startswith(".")]
        except FileNotFoundError:
            return []
        return sorted(name_of(folder) for folder in found if (self._folder / folder / _FACTS).exists())

    def list(self) -> Iterator[Image]:
        """Describe every image, in the order of their names."""
        for name in self.names():
            try:
                yield self._facts(name)
            except FileNotFoundError:
                continue  # removed meanwhile

    def path(self, name: str) -> Path:
        """Return the root of an image's tree. Raises ImageNotFound, which names the images there are."""
        tree = self._folder / folder_of(name) / _TREE
        if name not in self.names():
            there = ", ".join(self.names()) or "none yet"
            message = (
                f'no image "{name}" on this host (there is: {there}): see `ci-daemon image build` and `image import`'
            )
            raise ImageNotFound(message)
        return tree

    def build(self, name: str, *, mirror: str | None = None, progress: Callable[[str], None] = lambda _: None) -> Image:
        """Make an image of a Debian or Ubuntu release by mmdebstrap, or return it where it is there already.

        Takes 20 s and more; ``progress`` gets lines about it. ``mirror`` is an archive's address. Raises ImageError.
        """
        recipe = Recipe.of(name, mirror)
        with self._locked(name):
            if name in self.names():
                return self._facts(name)
            with recipe.tar(progress) as tar:
                return self._make(name, tar, source=recipe.describe())

    def import_(self, name: str, tar: IO[bytes], source: str = "imported") -> Image:
        """Make an image of a root file system's tar, plain or compressed by gzip, bzip2, xz or zstd.

        Raises ImageError where the name is taken, where the tar is none, and where the tree lacks what a VM needs.
        """
        check_name(name)
        with self._locked(name):
            if name in self.names():
                message = f'there is an image "{name}" already: remove it first, or choose another name'
                raise ImageError(message)
            return self._make(name, tar, source)

    def remove(self, name: str, used_by: Collection[str] = ()) -> None:
        """Remove an image. Raises ImageNotFound, and ImageError where the caller knows of VMs or snapshots on it."""
        if used_by:
            message = f'image "{name}" is in use by {", ".join(sorted(used_by))}'
            raise ImageError(message)
        with self._locked(name):
            place = self.path(name).parent
            doomed = self._making(name)
            place.rename(doomed)
            self._discard(doomed)

    def sweep(self) -> None:
        """Remove what the dead have left of images that they were making or removing."""
        for place in self._folder.glob(f"{_MAKING}*"):
            with suppress(BlockingIOError), self._lock(place.name.removeprefix(_MAKING), fcntl.LOCK_EX | fcntl.LOCK_NB):
                self._discard(place)

    def _make(self, name: str, tar: IO[bytes], source: str) -> Image:
        making = self._making(name)
        making.mkdir()
        try:
            tree = Tree(making / _TREE, self._idmap)
            tree.make()
            tree.unpack(tar)
            _check_programs(name, tree.path)
            image = Image(name, tree.size(), source, datetime.now(UTC))
            facts = {**asdict(image), "created": image.created.isoformat()}
            (making / _FACTS).write_text(json.dumps(facts), encoding="utf-8")
            tree.flush()
            making.rename(self._folder / folder_of(name))
        except BaseException:
            self._discard(making)
            raise
        return image

    def _facts(self, name: str) -> Image:
        facts = json.loads((self._folder / folder_of(name) / _FACTS).read_text(encoding="utf-8"))
        return Image(facts["name"], facts["size"], facts["source"], datetime.fromisoformat(facts["created"]))

    def _making(self, name: str) -> Path:
        return self._folder / f"{_MAKING}{folder_of(name)}"

    def _discard(self, making: Path) -> None:
        Tree(making, self._idmap).remove()

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """Hold a name: whoever else makes or removes that image waits. Removes what the dead have left behind."""
        check_name(name)
        (self._folder / _LOCKS).mkdir(parents=True, exist_ok=True)
        with self._lock(folder_of(name), fcntl.LOCK_EX):
            if self._making(name).exists():
                self._discard(self._making(name))
            self.sweep()
            yield

    @contextmanager
    def _lock(self, folder: str, how: int) -> Iterator[None]:
        with (self._folder / _LOCKS / folder).open("w") as file:
            fcntl.flock(file, how)
            yield


def _check_programs(name: str, root: Path) -> None:
    missing = missing_programs(root)
    if missing:
        packages = " ".join(sorted(set(missing.values())))
        message = (
            f'"{name}" lacks {", ".join(missing)}, without which no VM starts from it: install them in it '
            f"(in Debian: `apt-get install {packages}`) and import it again"
        )
        raise ImageError(message)
