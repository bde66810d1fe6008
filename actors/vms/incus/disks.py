"""The disks of jobs: volumes that are copied from an image's or a snapshot's, and kept as snapshots.

The volumes of images are made of the image store's trees, once for each content, and removed when the store has another
one or none.
"""

from __future__ import annotations

import hashlib
import socket
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

from actors.vms.host.vms import ImageRoots, SnapshotInUse, check_snapshot_free, stamp_of
from actors.vms.incus.outer_images import tree_tar
from actors.vms.incus.refusals import EngineError
from actors.vms.incus.volumes import BASE, BASE_OF_SERVICES, BYTES, IMAGE, OWNER, PARENT, SHIFTED, STAMP
from actors.vms.provider import ImageNotFound, SnapshotNotFound, VmError, VmLost, VmSpec
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from actors.vms.host.ids import IdMap
    from actors.vms.images.staging import StoreLocks
    from actors.vms.incus.engine import Engine
    from actors.vms.incus.exec_streams import ExecStreams
    from actors.vms.incus.instances import Instances
    from actors.vms.incus.outer_images import OuterImages
    from actors.vms.incus.volumes import Names, Volume, Volumes


class EngineDisks:
    """All disks and snapshots of one service on an engine."""

    def __init__(self, volumes: Volumes, images: EngineImages, names: Names) -> None:
        self._volumes = volumes
        self._images = images
        self._names = names

    def check(self, spec: VmSpec) -> str | None:
        """Return the member that has the disk's parent, if it has one. Raises ImageNotFound, SnapshotNotFound."""
        for image in spec.services.values():
            self._images.stamp(image)
        if spec.snapshot is None:
            self._images.stamp(spec.image)
            return None
        return self._parent(spec.snapshot).member

    def make(self, spec: VmSpec, member: str | None, base_gb: int) -> Sequence[Volume]:
        """Make the disks of a VM on a member; return their volumes, the job's and then those of its services.

        The job's is labelled `BASE` if it does not share all. Each may grow by the shape's size beyond ``base_gb``, the
        most that lies below it. Raises ImageNotFound, SnapshotNotFound and VmError.
        """
        size = f"{spec.shape.disk_gb + base_gb}GiB"
        return [self._make_job_disk(spec, member, size), *self._make_for_services(spec, member, size)]

    def _make_for_services(self, spec: VmSpec, member: str | None, size: str) -> Iterator[Volume]:
        for number, image in enumerate(spec.services.values()):
            source = self._images.volume(image, member)
            labels = {IMAGE: image, STAMP: source.labels[STAMP], OWNER: self._names.prefix}
            yield self._volumes.copy(source, self._names.service(spec.id, number), labels, member, size)

    def _make_job_disk(self, spec: VmSpec, member: str | None, size: str) -> Volume:
        if spec.snapshot is None:
            source = self._images.volume(spec.image, member)
            labels = {IMAGE: spec.image, STAMP: source.labels[STAMP], PARENT: ""}
        else:
            source = self._parent(spec.snapshot)
            labels = {key: source.labels[key] for key in (IMAGE, STAMP)} | {PARENT: spec.snapshot}
        if source.member != member or source.labels.get(SHIFTED) != "true":
            labels[BASE] = "0"
        name = self._names.disk(spec.id)
        return self._volumes.copy(source, name, {**labels, OWNER: self._names.prefix}, member, size)

    def used_bytes(self, vm_id: str) -> int:
        """Return the bytes that a VM's disk takes beyond its parent. Raises VmLost if there is no disk."""
        return self._volumes.used_bytes(self._disk(vm_id))

    def remove(self, vm_id: str) -> None:
        """Remove the disks of a VM that has ended; missing ones are fine."""
        beside = [name for name, vm in self._names.services(self._volumes.names()) if vm == vm_id]
        for name in (*beside, self._names.disk(vm_id)):
            if (volume := self._volumes.find(name)) is not None and self._names.own(volume.labels):
                self._volumes.remove(volume)

    def vms(self) -> Iterable[str]:
        """Return the ids of all VMs that have a disk."""
        names = list(self._volumes.names())
        return {*self._names.of_kind("disk", names), *(vm_id for _, vm_id in self._names.services(names))}

    def check_free(self, vm_id: str, snapshot: str) -> bool:
        """Tell whether the VM's disk must yet become this snapshot. Raises VmError and VmLost if it cannot."""
        kept = self._volumes.find(self._names.snapshot(snapshot)) is not None
        has_disk = self._volumes.find(self._names.disk(vm_id)) is not None
        check_snapshot_free(vm_id, snapshot, has_disk=has_disk, kept=kept)
        return has_disk

    def base_bytes(self, vm_id: str) -> int:
        """Return the bytes that a VM's disks have had from their start. Raises VmLost if there is no disk."""
        labels = self._disk(vm_id).labels
        return sum(int(labels.get(each, 0)) for each in (BASE, BASE_OF_SERVICES))

    def note_base(self, disk: Volume, used: int, of_services: int) -> None:
        """Note the bytes that a new disk has, and those that the disks of services beside it have."""
        self._volumes.label(disk, {BASE: str(used), BASE_OF_SERVICES: str(of_services)})

    def keep(self, vm_id: str, snapshot: str, used: int) -> None:
        """Make a snapshot of a disk that no instance has any more.

        Of the ``used`` bytes, those beyond its parent are noted now, because copies of it would hide them. Bytes that
        came from another member count; changes of owner that the engine made to files do not.
        """
        disk = self._disk(vm_id)
        if disk.labels.get(SHIFTED) != "true":
            used = max(0, used - int(disk.labels.get(BASE, 0)))
        self._volumes.label(disk, {BYTES: str(used)})
        self._volumes.rename(disk, self._names.snapshot(snapshot))

    def snapshots(self) -> Iterable[str]:
        """Name every snapshot."""
        return sorted(self._names.of_kind("snapshot", self._volumes.names()))

    def snapshot_image(self, snapshot: str) -> str | None:
        """Return a snapshot's image; None if either is missing, or the image was replaced."""
        try:
            return self._parent(snapshot).labels[IMAGE]
        except (SnapshotNotFound, ImageNotFound):
            return None

    def snapshot_bytes(self, snapshot: str) -> int:
        """Return the bytes of a snapshot beyond the one below it; 0 if there is no such snapshot."""
        found = self._volumes.find(self._names.snapshot(snapshot))
        return 0 if found is None else int(found.labels.get(BYTES, 0))

    def remove_snapshot(self, snapshot: str) -> None:
        """Remove a snapshot; an unknown one is fine. Raises SnapshotInUse."""
        name = self._names.snapshot(snapshot)
        volumes = self._volumes.all()
        below = {each.name: each.labels.get(PARENT, "") for each in volumes if self._names.own(each.labels)}
        if user := next((other for other, parent in below.items() if parent == snapshot), None):
            message = f"snapshot {snapshot!r} is in use: {user} starts from it"
            raise SnapshotInUse(message)
        for volume in volumes:
            if volume.name == name and name in below:
                self._volumes.remove(volume)

    def _disk(self, vm_id: str) -> Volume:
        found = self._volumes.find(self._names.disk(vm_id))
        if found is None:
            message = f"VM {vm_id} has no disk"
            raise VmLost(message)
        return found

    def _parent(self, snapshot: str) -> Volume:
        """Return the volume of a snapshot. Raises SnapshotNotFound, also if its image was replaced."""
        found = self._volumes.find(self._names.snapshot(snapshot))
        if found is None:
            message = f"no snapshot {snapshot!r} is on the engine: the job that made it has to run again"
            raise SnapshotNotFound(message)
        image = found.labels[IMAGE]
        if self._images.stamp(image) != found.labels[STAMP]:
            message = f"snapshot {snapshot!r} was made on an image {image!r} that has been replaced since"
            raise SnapshotNotFound(message)
        return found


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
    """The images that jobs start from, on the engine: a volume of each.

    They are made of the image store's trees, once for each content, and removed when the store has another one or none.
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
