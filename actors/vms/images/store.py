"""The image store: a folder of trees, shared by any number of processes and state directories."""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import IO, TYPE_CHECKING

from actors.vms.images.debian import Recipe
from actors.vms.images.names import check_name, folder_of, name_of
from actors.vms.images.outfit import end_all, outfitted
from actors.vms.images.process import TICK
from actors.vms.images.registry import fetch
from actors.vms.images.room import NoRoom, PullOptions, Room, TooLarge
from actors.vms.images.scratch import scratch, sweep_scratch
from actors.vms.images.tree import Tree, missing_programs
from actors.vms.provider import ImageNotFound, VmError
from actors.vms.sandbox.userns import close_to_others

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

    from actors.vms.images.reference import Reference
    from actors.vms.sandbox.settings import SandboxSettings
    from actors.vms.sandbox.userns import IdMap

__all__ = ["Image", "ImageError", "ImageStore"]

_TREE = "tree"
_FACTS = "image.json"
_USED = "used"
_SANDBOX = "sandbox"
_BARE = "bare"
_MAKING = ".making-"
_LOCKS = ".locks"
_SWAP = ".swap"
_DEFAULT = ".default"


class ImageError(VmError):
    """An image cannot be made or removed; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image of the store: ``size`` in bytes on disk, ``source`` where it came from.

    ``environment`` has the variables that the image sets for its programs. An ``on_demand`` image was pulled for a job
    and is removed when unused; ``used`` is when a job last started from it, if that was noted.
    """

    name: str
    size: int
    source: str
    created: datetime
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    on_demand: bool = False
    used: datetime | None = None


class ImageStore:
    """A store that keeps each image as ``FOLDER/tree``, owned by the VMs' ids, with its facts beside it.

    An image appears whole or not at all, and is never changed. The next call that makes or removes an image removes
    what a crash left behind. Every call blocks and may be made by any thread of any process.
    """

    def __init__(self, folder: Path, idmap: IdMap) -> None:
        """Use ``folder``, which only its owner may enter: the trees hold setuid programs of the VMs' root."""
        self._folder = folder
        self._idmap = idmap
        close_to_others(folder)

    def names(self) -> list[str]:
        """Return the names of all images, sorted."""
        try:
            found = [place.name for place in self._folder.iterdir() if not place.name.startswith(".")]
        except FileNotFoundError:
            return []
        return sorted(name_of(folder) for folder in found if (self._folder / folder / _FACTS).exists())

    def list(self) -> Iterator[Image]:
        """Yield all images, sorted by name."""
        for name in self.names():
            try:
                yield self._facts(name)
            except FileNotFoundError:
                continue  # removed meanwhile

    def get(self, name: str) -> Image:
        """Return one image. Raises ImageNotFound, whose message names the images of the store."""
        if name in self.names():
            with suppress(FileNotFoundError):
                return self._facts(name)
        there = ", ".join(self.names()) or "none yet"
        message = (
            f'no image "{name}" on this host (there is: {there}): see `ci-daemon image build`, `image pull` and '
            "`image import`"
        )
        raise ImageNotFound(message)

    def path(self, name: str) -> Path:
        """Return the root of an image's tree. Raises ImageNotFound."""
        self.get(name)
        return self._folder / folder_of(name) / _TREE

    def default(self) -> str | None:
        """Return the name of the image that was chosen as the default, or None."""
        try:
            return (self._folder / _DEFAULT).read_text(encoding="ascii")
        except FileNotFoundError:
            return None

    def choose(self, name: str) -> None:
        """Make an image the default for all users of this store. Raises ImageNotFound."""
        with self._locked(name):
            self.get(name)
            chosen = self._folder / f"{_DEFAULT}.{os.getpid()}"
            chosen.write_text(name, encoding="ascii")
            chosen.replace(self._folder / _DEFAULT)

    def build(self, name: str, *, mirror: str | None = None, progress: Callable[[str], None] = lambda _: None) -> Image:
        """Make an image of a Debian or Ubuntu release with mmdebstrap, unless it exists; return it.

        Takes 20 s or more; ``progress`` gets lines about it. ``mirror`` is the address of a package archive. Raises
        VmError.
        """
        recipe = Recipe.of(name, mirror)
        with self._locked(name):
            if name in self.names():
                return self.get(name)
            with self._making(name) as making:
                with scratch(making, self._idmap) as folder, recipe.tar(folder, progress) as tar:
                    self._unpack(making, tar)
                return self._finish(making, name, recipe.describe())

    def import_(self, name: str, tar: IO[bytes], source: str = "imported") -> Image:
        """Make an image of a root file system's tar, plain or compressed by gzip, bzip2, xz or zstd.

        Raises ImageError if the name is taken or the tree lacks what a VM needs, VmError if the tar is invalid.
        """
        with self._locked(name):
            self._must_be_free(name)
            with self._making(name) as making:
                self._unpack(making, tar)
                return self._finish(making, name, source)

    def pull(
        self,
        reference: Reference,
        name: str,
        sandbox: SandboxSettings,
        options: PullOptions,
        users: Callable[[], Collection[str]] = tuple,
    ) -> Image:
        """Make an image from one in an OCI registry, in place of the image of that name, if any.

        Its own package manager installs what a VM needs and it lacks, in a VM with the settings of ``sandbox``.
        ``users`` names the VMs and snapshots on the image to be replaced; if there are any, it stays. Raises VmError,
        whose message says what to do, and what the check of the options raises.
        """
        with self._locked(name, options.check):
            return self._pull(reference, name, sandbox, options, users, on_demand=False)

    def pull_missing(self, reference: Reference, name: str, sandbox: SandboxSettings, options: PullOptions) -> Image:
        """Make an image from one in an OCI registry for a job, unless its name exists by now; see `pull`."""
        with self._locked(name, options.check):
            if name in self.names():
                return self.get(name)
            return self._pull(reference, name, sandbox, options, tuple, on_demand=True)

    def use(self, name: str) -> bool:
        """Note that a job will start from an image, which then stays for a while; False if it is missing."""
        try:
            with self._swapping(fcntl.LOCK_SH):
                (self._folder / folder_of(name) / _USED).touch()
        except FileNotFoundError:
            return False
        except OSError:  # another user's store, where nothing can be noted
            return name in self.names()
        return True

    def remove_unused(self, name: str, before: datetime) -> bool:
        """Remove an image that was pulled for a job and not used since ``before``; tell if it was removed.

        Returns False at once if another call makes or removes it.
        """
        with suppress(BlockingIOError, ImageNotFound), self._lock(folder_of(name), fcntl.LOCK_EX | fcntl.LOCK_NB):
            gone = self._folder / f"{_MAKING}{folder_of(name)}"
            with self._swapping(fcntl.LOCK_EX):
                image = self.get(name)
                if not image.on_demand or (image.used or image.created) >= before:
                    return False
                (self._folder / folder_of(name)).rename(gone)
            self._discard(gone)
            return True
        return False

    def remove(self, name: str, used_by: Collection[str] = ()) -> None:
        """Remove an image. Raises ImageNotFound, and ImageError if ``used_by`` names VMs or snapshots on it."""
        if used_by:
            message = f'image "{name}" is in use by {", ".join(sorted(used_by))}'
            raise ImageError(message)
        with self._locked(name):
            place = self.path(name).parent
            doomed = self._folder / f"{_MAKING}{folder_of(name)}"
            place.rename(doomed)
            self._discard(doomed)

    def sweep(self) -> None:
        """Remove what dead processes left of images that they were making or removing."""
        for place in self._folder.glob(f"{_MAKING}*"):
            with suppress(BlockingIOError), self._lock(place.name.removeprefix(_MAKING), fcntl.LOCK_EX | fcntl.LOCK_NB):
                self._discard(place)

    def _pull(
        self,
        reference: Reference,
        name: str,
        sandbox: SandboxSettings,
        options: PullOptions,
        users: Callable[[], Collection[str]],
        *,
        on_demand: bool,
    ) -> Image:
        with self._making(name) as making:
            room = Room(making, self._idmap, options)
            try:
                pulled = fetch(reference, making, room)
                options.progress(f"unpacking {reference.short}")
                bare = Tree(making / _BARE, self._idmap)
                bare.make()
                pulled.unpack(bare, room)
                self._outfit(name, making, sandbox, room)
            except TooLarge as error:
                message = f"{reference.short} is larger than allowed: {error}"
                raise ImageError(message) from error
            if used_by := users():
                message = f'image "{name}" is in use by {", ".join(sorted(used_by))}: pull it again when that has ended'
                raise ImageError(message)
            source = f"pulled {reference.text}"
            return self._finish(making, name, source, pulled.environment, on_demand=on_demand)

    def _must_be_free(self, name: str) -> None:
        if name in self.names():
            message = f'there is an image "{name}" already: remove it first, or choose another name'
            raise ImageError(message)

    @contextmanager
    def _making(self, name: str) -> Iterator[Path]:
        """Yield the folder in which an image is made; it is gone at the end, also after an error."""
        making = self._folder / f"{_MAKING}{folder_of(name)}"
        making.mkdir()
        try:
            yield making
        finally:
            if making.exists():
                self._discard(making)

    def _unpack(self, making: Path, tar: IO[bytes]) -> None:
        tree = Tree(making / _TREE, self._idmap)
        tree.make()
        tree.unpack(tar)

    def _outfit(self, name: str, making: Path, settings: SandboxSettings, room: Room) -> None:
        """Turn the bare tree into one with all programs that a VM needs."""
        bare = Tree(making / _BARE, self._idmap)
        missing = missing_programs(bare.path)
        if not missing:
            bare.path.rename(making / _TREE)
            return
        packages = sorted(set(missing.values()))
        if "sh" in missing:
            message = f'"{name}" has no shell, so no VM can start from it: pull one that is made of a distribution'
            raise ImageError(message)
        room.options.progress(f"installing what it lacks in it: {' '.join(packages)}")
        try:
            with outfitted(bare, packages, making / _SANDBOX, settings, room) as tar:
                self._unpack(making, tar)
        except (TooLarge, NoRoom):
            raise
        except VmError as error:
            message = (
                f'"{name}" lacks {", ".join(missing)}, which a VM needs and which cannot be installed in it: '
                f"{error}; install them in it yourself, then see `ci-daemon image import`"
            )
            raise ImageError(message) from error
        bare.remove()
        Tree(making / _SANDBOX, self._idmap).remove()

    def _finish(
        self,
        making: Path,
        name: str,
        source: str,
        environment: Mapping[str, str] = MappingProxyType({}),
        *,
        on_demand: bool = False,
    ) -> Image:
        """Put the finished tree into the store with its facts, in place of an image of its name, if any."""
        tree = Tree(making / _TREE, self._idmap)
        _check_programs(name, tree.path)
        image = Image(name, tree.size(), source, datetime.now(UTC), dict(environment), on_demand)
        facts = {**asdict(image), "created": image.created.isoformat()}
        del facts["used"]
        (making / _FACTS).write_text(json.dumps(facts), encoding="utf-8")
        tree.flush()
        place, former = self._folder / folder_of(name), self._folder / f"{_MAKING}{folder_of(name)}~former"
        with self._swapping(fcntl.LOCK_EX):
            if place.exists():
                place.rename(former)
            making.rename(place)
        if former.exists():
            self._discard(former)
        return image

    def _facts(self, name: str) -> Image:
        place = self._folder / folder_of(name)
        facts = json.loads((place / _FACTS).read_text(encoding="utf-8"))
        used = None
        with suppress(FileNotFoundError):
            used = datetime.fromtimestamp((place / _USED).stat().st_mtime, UTC)
        return Image(**{**facts, "created": datetime.fromisoformat(facts["created"]), "used": used})

    def _discard(self, making: Path) -> None:
        if (making / _SANDBOX).exists():
            end_all(making / _SANDBOX, self._idmap)
        sweep_scratch(making, self._idmap)
        Tree(making, self._idmap).remove()

    @contextmanager
    def _locked(self, name: str, check: Callable[[], None] | None = None) -> Iterator[None]:
        """Hold the lock of an image's name, without which no image is made or removed.

        ``check`` may abort the wait for it by raising. Removes what dead processes left behind.
        """
        check_name(name)
        with self._lock(folder_of(name), fcntl.LOCK_EX, check):
            left = self._folder / f"{_MAKING}{folder_of(name)}"
            if left.exists():
                self._discard(left)
            self.sweep()
            yield

    @contextmanager
    def _swapping(self, how: int) -> Iterator[None]:
        """Hold the lock on the folders of all images, for no longer than a rename takes."""
        with self._lock(_SWAP, how):
            yield

    @contextmanager
    def _lock(self, folder: str, how: int, check: Callable[[], None] | None = None) -> Iterator[None]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self._folder / _LOCKS).mkdir(exist_ok=True)
        with (self._folder / _LOCKS / folder).open("w") as file:
            if check is None:
                fcntl.flock(file, how)
            else:
                _flock(file, how, check)
            yield


def _flock(file: IO[str], how: int, check: Callable[[], None]) -> None:
    """Lock a file as soon as it is free; ``check`` may abort the wait by raising."""
    while True:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            check()
            time.sleep(TICK)
        else:
            return


def _check_programs(name: str, root: Path) -> None:
    missing = missing_programs(root)
    if missing:
        packages = " ".join(sorted(set(missing.values())))
        message = (
            f'"{name}" lacks {", ".join(missing)}, without which no VM starts from it: install them in it '
            f"(in Debian: `apt-get install {packages}`) and import it again"
        )
        raise ImageError(message)
