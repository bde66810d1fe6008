"""The image store: a folder of trees, shared by any number of processes and state directories."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import IO, TYPE_CHECKING

from actors.vms.host.ids import restrict_to_owner
from actors.vms.images import factory
from actors.vms.images.image import (
    TREE,
    Image,
    ImageError,
    ImageProgram,
    check_name,
    folder_of,
    is_complete,
    is_name,
    login_of,
    name_of,
    public_name,
    record_use,
)
from actors.vms.images.staging import Staging, StoreLocks
from actors.vms.provider import ImageNotFound
from storage.files import sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

    from actors.vms.host.ids import IdMap
    from actors.vms.images.image import Reference
    from actors.vms.images.registry import PullOptions

_LOCKS = ".locks"
_DEFAULT = ".default"


_NO_PROGRAM = ImageProgram()


class ImageStore:
    """A store that keeps each image as ``FOLDER/tree``, owned by the VMs' ids, with its facts beside it.

    An image appears whole or not at all, and is never changed. The next call that makes or removes an image removes
    what a crash left behind. Every call blocks and may be made by any thread of any process.
    """

    def __init__(self, folder: Path, idmap: IdMap) -> None:
        """Use ``folder``, which only its owner may enter: the trees hold setuid programs of the VMs' root."""
        self._folder = folder
        self._idmap = idmap
        self._locks = StoreLocks(folder / _LOCKS)
        restrict_to_owner(folder)

    def names(self) -> list[str]:
        """Return the names of all images, sorted."""
        try:
            folders = [each for each in self._folder.iterdir() if not each.name.startswith(".")]
        except FileNotFoundError:
            return []
        return sorted(name_of(each.name) for each in folders if is_complete(each))

    def list(self) -> Iterator[Image]:
        """Yield all images, sorted by name."""
        for name in self.names():
            try:
                yield Image.read(self._folder_of(name))
            except FileNotFoundError:
                continue  # removed since

    def get(self, name: str) -> Image:
        """Return one image. Raises ImageNotFound, whose message names the images of the store."""
        if is_name(name):
            with suppress(FileNotFoundError):
                return Image.read(self._folder_of(name))
        raise self._missing(name)

    def _missing(self, name: str) -> ImageNotFound:
        present = ", ".join(each for each in self.names() if login_of(each) is None) or "none yet"
        message = (
            f'no image "{public_name(name)}" on this host (it has: {present}): see `ci-daemon image build`, `image '
            "pull` and `image import`"
        )
        return ImageNotFound(message)

    def path(self, name: str) -> Path:
        """Return the root of an image's tree. Raises ImageNotFound."""
        if not (is_name(name) and is_complete(folder := self._folder_of(name))):
            raise self._missing(name)
        return folder / TREE

    def can_be_base(self, name: str) -> bool:
        """Tell whether an image of the store has all that the service's own part of a VM needs."""
        try:
            tree = self.path(name)
            found = tree.stat()
        except (ImageNotFound, FileNotFoundError):
            return False
        return _can_be_base(tree, found.st_ino, found.st_ctime_ns)

    def default(self) -> str | None:
        """Return the name of the image that was chosen as the default, or None."""
        try:
            return (self._folder / _DEFAULT).read_text(encoding="ascii")
        except FileNotFoundError:
            return None

    def choose(self, name: str) -> None:
        """Make an image the default for all users of this store. Raises ImageNotFound."""
        with self._changing(name):
            self.get(name)
            chosen = self._folder / f"{_DEFAULT}.{os.getpid()}"
            chosen.write_text(name, encoding="ascii")
            chosen.replace(self._folder / _DEFAULT)

    def build(self, name: str, *, mirror: str | None = None, progress: Callable[[str], None] = lambda _: None) -> Image:
        """Make an image of a Debian or Ubuntu release with mmdebstrap, unless it exists; return it.

        Takes 20 s or more; ``progress`` gets lines about it. ``mirror`` is the address of a package archive. Raises
        VmError.
        """
        recipe = factory.Recipe.of(name, mirror)
        with self._changing(name):
            if name in self.names():
                return self.get(name)
            with self._staging.new(name) as staging:
                factory.bootstrap(recipe, staging, self._idmap, progress)
                return self._add(staging, name, recipe.describe())

    def import_(self, name: str, tar: IO[bytes], source: str = "imported") -> Image:
        """Make an image of a root file system's tar, plain or compressed by gzip, bzip2, xz or zstd.

        Raises ImageError if the name is taken or the tree lacks what a VM needs, VmError if the tar is invalid.
        """
        with self._changing(name):
            if name in self.names():
                message = f'an image "{name}" exists already: remove it first, or choose another name'
                raise ImageError(message)
            with self._staging.new(name) as staging:
                hashed = factory.HashedTar(tar)
                factory.unpack(hashed, staging, self._idmap)
                return self._add(staging, name, source, digest=hashed.digest())

    def take(self, name: str, tar: IO[bytes], below: str, source: str, users: Callable[[], Collection[str]]) -> Image:
        """Make an image of the folder ``below`` in a tar, in place of the image of that name, if any.

        ``users`` and errors are those of `pull`.
        """
        with self._changing(name), self._staging.new(name) as staging:
            factory.unpack(tar, staging, self._idmap, below)
            _check_unused(name, users())
            return self._add(staging, name, source)

    def pull(
        self,
        reference: Reference,
        name: str,
        options: PullOptions,
        users: Callable[[], Collection[str]] = tuple,
    ) -> Image:
        """Make an image from one in an OCI registry, in place of the image of that name, if any.

        ``users`` names the VMs and snapshots on the image to be replaced; if there are any, it stays. Raises VmError,
        whose message says what to do, and the errors of the options' check.
        """
        with self._changing(name, options.check):
            return self._pull(reference, name, options, users, on_demand=False)

    def pull_missing(self, reference: Reference, name: str, options: PullOptions) -> Image:
        """Make an image from one in an OCI registry for a job, unless its name exists by now; see `pull`."""
        with self._changing(name, options.check):
            if name in self.names():
                return self.get(name)
            return self._pull(reference, name, options, tuple, on_demand=True)

    def use(self, name: str) -> bool:
        """Record that a job will start from an image, which then stays for a while; False if it is missing."""
        try:
            with self._locks.renames(shared=True):
                record_use(self._folder_of(name))
        except FileNotFoundError:
            return False
        except OSError:  # another user's store, in which nothing can be recorded
            return name in self.names()
        return True

    def remove_unused(self, name: str, before: datetime) -> bool:
        """Remove an image that was pulled for a job and not used since ``before``; tell if it was removed.

        Returns False at once if another call makes or removes it.
        """
        with suppress(BlockingIOError, ImageNotFound), self._locks.image_if_free(folder_of(name)):
            with self._locks.renames():
                image = self.get(name)
                if not image.on_demand or (image.used or image.created) >= before:
                    return False
                removed = self._staging.take(name)
            self._staging.remove(removed)
            return True
        return False

    def remove(self, name: str, used_by: Collection[str] = ()) -> None:
        """Remove an image.

        Raises ImageNotFound, and ImageError if ``used_by`` names VMs or snapshots on it, or if its sshd serves VMs.
        """
        if used_by:
            message = f'image "{name}" is in use by {", ".join(sorted(used_by))}'
            raise ImageError(message)
        with self._changing(name):
            self.get(name)
            self._staging.remove(self._staging.take(name))

    def sweep(self) -> None:
        """Remove what dead processes left of images that they were making or removing."""
        self._staging.sweep()

    def _pull(
        self,
        reference: Reference,
        name: str,
        options: PullOptions,
        users: Callable[[], Collection[str]],
        *,
        on_demand: bool,
    ) -> Image:
        with self._staging.new(name) as staging:
            pulled = factory.pull(reference, staging, self._idmap, options)
            _check_unused(name, users())
            source = f"pulled {reference.text}"
            facts = pulled.environment, pulled.program, pulled.digest
            return self._add(staging, name, source, *facts, on_demand=on_demand)

    def _add(
        self,
        staging: Path,
        name: str,
        source: str,
        environment: Mapping[str, str] = MappingProxyType({}),
        program: ImageProgram = _NO_PROGRAM,
        digest: str | None = None,
        *,
        on_demand: bool = False,
    ) -> Image:
        """Add the finished image to the store, in place of an image of its name, if any."""
        tree = factory.Tree(staging / TREE, self._idmap)
        factory.check_shell(name, tree.path)
        now, size = datetime.now(UTC), tree.size()
        image = Image(name, size, source, now, dict(environment), on_demand, program=program, digest=digest)
        image.write(staging)
        tree.flush()
        with self._locks.renames():
            former = self._staging.take_former(name)
            staging.rename(self._folder_of(name))
            sync_folder(self._folder)
        if former is not None:
            self._staging.remove(former)
        return image

    @cached_property
    def _staging(self) -> Staging:
        return Staging(self._folder, self._idmap, self._locks)

    def _folder_of(self, name: str) -> Path:
        return self._folder / folder_of(name)

    @contextmanager
    def _changing(self, name: str, check: Callable[[], None] | None = None) -> Iterator[None]:
        """Hold the lock of an image's name; ``check`` may abort the wait for it by raising.

        Removes what dead processes left behind.
        """
        check_name(name)
        with self._locks.image(folder_of(name), check):
            self._staging.sweep_image(name)
            self._staging.sweep()
            yield


@lru_cache(maxsize=16)
def _can_be_base(tree: Path, _inode: int, _changed: int) -> bool:
    """Look into a tree once: no image is ever changed, and one in its place is another file."""
    return factory.can_be_base(tree)


def _check_unused(name: str, users: Collection[str]) -> None:
    """Raise ImageError if an image that is to be replaced is in use."""
    if users:
        message = f'image "{name}" is in use by {", ".join(sorted(users))}: pull it again when that has ended'
        raise ImageError(message)
