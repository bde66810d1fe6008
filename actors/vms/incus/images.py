"""Images that jobs start from, on the engine: a volume of each.

They are made of the image store's trees, once for each content, and removed when the store has another one or none.
"""

from __future__ import annotations

import hashlib
import socket
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

from actors.vms.host.vms import ImageRoots, stamp_of
from actors.vms.incus.names import IMAGE, OWNER, STAMP
from actors.vms.incus.refusals import EngineError
from actors.vms.incus.tarballs import tree_tar
from actors.vms.incus.volumes import SHIFTED
from actors.vms.provider import ImageNotFound, VmError
from storage import immutable

if TYPE_CHECKING:
    from pathlib import Path

    from actors.vms.host.ids import IdMap
    from actors.vms.images.store_locks import StoreLocks
    from actors.vms.incus.engine import Engine
    from actors.vms.incus.exec_streams import ExecStreams
    from actors.vms.incus.instances import Instances
    from actors.vms.incus.names import Names
    from actors.vms.incus.outer_images import OuterImages
    from actors.vms.incus.volumes import Volume, Volumes

_UPLOAD_SECONDS = 1800.0
_NO_MAPPING = "idmap"
"""The word in an engine's refusal to map ids as it mounts a volume."""

_KEY_CHARS = 20
_BLOCK_BYTES = 1 << 18
_PLACE = "/mnt"
_UNPACK = f"mkdir -m 755 {_PLACE}/root && mkdir -m 700 {_PLACE}/command && exec tar -x --xattrs -C {_PLACE}/root"


@immutable
class EngineParts:
    """One engine, by each kind of thing that it has."""

    engine: Engine
    volumes: Volumes
    instances: Instances
    streams: ExecStreams
    names: Names


class EngineImages:
    """The images of the store, as far as they are on the engine.

    Safe in any thread, and in other processes that share the locks.
    """

    def __init__(
        self,
        engine: EngineParts,
        store: ImageRoots,
        idmap: IdMap,
        outer: OuterImages,
        locks: StoreLocks,
    ) -> None:
        """Instances of the image ``outer``, that of containers, unpack what others start from."""
        self._on = engine
        self._store = store
        self._idmap = idmap
        self._outer = outer
        self._locks = locks

    def stamp(self, image: str) -> str:
        """Return a text that changes when the image is replaced. Raises ImageNotFound."""
        return stamp_of(self._store.path(image))

    def volume(self, image: str, member: str | None) -> Volume:
        """Return the volume of an image on a member, which is put there if it is missing.

        Raises ImageNotFound and VmError.
        """
        tree = self._store.path(image)
        stamp = stamp_of(tree)
        name = self._on.names.image(_key(image, stamp))
        with self._locks.image(_lock(image)):
            if here := self._on.volumes.find(name, member):
                return here
            labels = {OWNER: self._on.names.prefix, IMAGE: image, STAMP: stamp}
            self._fill(_key(image, stamp), tree, labels, member)
            self.remove_outdated()
            if made := self._on.volumes.find(name, member):
                return made
        message = f"the volume of image {image!r} was removed by somebody else as it was made"
        raise VmError(message)

    def remove_outdated(self) -> None:
        """Remove the volumes of images that were removed or replaced, and those that nobody fills any more.

        The disks of jobs stay whole. Raises VmError.
        """
        on = self._on
        for volume in on.volumes.all():
            if not on.names.own(volume.labels):
                continue
            if any(on.names.of_kind("fill", [volume.name])):
                with suppress(BlockingIOError), self._locks.image_if_free(_lock(volume.labels[IMAGE])):
                    on.instances.remove(volume.name)
                    on.volumes.remove(volume)
            elif self._is_outdated(volume):
                on.volumes.remove(volume)

    def _is_outdated(self, volume: Volume) -> bool:
        if not any(self._on.names.of_kind("image", [volume.name])):
            return False
        try:
            return self.stamp(volume.labels[IMAGE]) != volume.labels[STAMP]
        except ImageNotFound:
            return True

    def _fill(self, key: str, tree: Path, labels: dict[str, str], member: str | None) -> None:
        """Make an image's volume. Raises VmError.

        Where the engine cannot map ids in mounts, it gives all files of a disk to the instance that has it.
        """
        try:
            self._fill_volume(key, tree, {**labels, SHIFTED: "true"}, member)
        except EngineError as error:
            if _NO_MAPPING not in str(error):
                raise
            self._fill_volume(key, tree, {**labels, SHIFTED: "false"}, member)

    def _fill_volume(self, key: str, tree: Path, labels: dict[str, str], member: str | None) -> None:
        """Make an image's volume: unpack the tree by an instance, then give the volume its name."""
        on, name = self._on, self._on.names.filling(key)
        on.instances.remove(name)
        if (left := on.volumes.find(name, member)) is not None:
            on.volumes.remove(left)
        volume = on.volumes.make(name, labels, member)
        try:
            device = on.volumes.device(name, _PLACE)
            on.instances.make(name, self._outer.alias(), {}, {"disk": device}, member)
            self._unpack(name, tree)
            on.instances.remove(name)
            on.volumes.rename(volume, on.names.image(key))
        finally:
            on.instances.remove(name)

    def _unpack(self, instance: str, tree: Path) -> None:
        unpacking = self._on.streams.start(instance, ["/bin/sh", "-c", _UNPACK])
        with unpacking, tree_tar(tree, self._idmap) as stream:
            with suppress(BrokenPipeError):  # it has ended, and its exit code says why
                while block := stream.read(_BLOCK_BYTES):
                    unpacking.send(block)
                unpacking.shutdown(socket.SHUT_WR)
            unpacking.recv(1)
            unpacking.read_errors()
        if unpacking.exit_code(_UPLOAD_SECONDS) != 0:
            reason = unpacking.errors.decode(errors="replace").strip()
            message = f"the image at {tree} could not be unpacked on the engine: {reason}"
            raise VmError(message)


def _key(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_KEY_CHARS]


def _lock(image: str) -> str:
    return quote(image, safe="")
