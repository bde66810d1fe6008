"""The disks of jobs: volumes that are copied from an image's or a snapshot's, and kept as snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.vms.host.vms import SnapshotInUse, check_snapshot_free
from actors.vms.incus.names import BASE, BYTES, IMAGE, OWNER, PARENT, STAMP
from actors.vms.incus.volumes import SHIFTED
from actors.vms.provider import ImageNotFound, SnapshotNotFound, VmLost, VmSpec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.vms.incus.images import EngineImages
    from actors.vms.incus.names import Names
    from actors.vms.incus.volumes import Volume, Volumes


class EngineDisks:
    """All disks and snapshots of one service on an engine."""

    def __init__(self, volumes: Volumes, images: EngineImages, names: Names) -> None:
        self._volumes = volumes
        self._images = images
        self._names = names

    def check(self, spec: VmSpec) -> str | None:
        """Return the member that has the disk's parent, if it has one. Raises ImageNotFound, SnapshotNotFound."""
        if spec.snapshot is None:
            self._images.stamp(spec.image)
            return None
        return self._parent(spec.snapshot).member

    def make(self, spec: VmSpec, member: str | None, base_gb: int) -> Volume:
        """Make the disk of a VM on a member; return its volume, labelled `BASE` if it does not share all.

        It may grow by the shape's size beyond ``base_gb``, the most that lies below it. Raises ImageNotFound,
        SnapshotNotFound and VmError.
        """
        if spec.snapshot is None:
            source = self._images.volume(spec.image, member)
            labels = {IMAGE: spec.image, STAMP: source.labels[STAMP], PARENT: ""}
        else:
            source = self._parent(spec.snapshot)
            labels = {key: source.labels[key] for key in (IMAGE, STAMP)} | {PARENT: spec.snapshot}
        if source.member != member or source.labels.get(SHIFTED) != "true":
            labels[BASE] = "0"
        name = self._names.disk(spec.id)
        size = f"{spec.shape.disk_gb + base_gb}GiB"
        return self._volumes.copy(source, name, {**labels, OWNER: self._names.prefix}, member, size)

    def used_bytes(self, vm_id: str) -> int:
        """Return the bytes that a VM's disk takes beyond its parent. Raises VmLost if there is no disk."""
        return self._volumes.used_bytes(self._disk(vm_id))

    def remove(self, vm_id: str) -> None:
        """Remove the disk of a VM that has ended; a missing one is fine."""
        name = self._names.disk(vm_id)
        if (volume := self._volumes.find(name)) is not None and self._names.own(volume.labels):
            self._volumes.remove(volume)

    def vms(self) -> Iterable[str]:
        """Return the ids of all VMs that have a disk."""
        return self._names.of_kind("disk", self._volumes.names())

    def check_free(self, vm_id: str, snapshot: str) -> bool:
        """Tell whether the VM's disk must yet become this snapshot. Raises VmError and VmLost if it cannot."""
        kept = self._volumes.find(self._names.snapshot(snapshot)) is not None
        has_disk = self._volumes.find(self._names.disk(vm_id)) is not None
        check_snapshot_free(vm_id, snapshot, has_disk=has_disk, kept=kept)
        return has_disk

    def base_bytes(self, vm_id: str) -> int:
        """Return the bytes that a VM's disk has had from its start. Raises VmLost if there is no disk."""
        return int(self._disk(vm_id).labels.get(BASE, 0))

    def note_base(self, disk: Volume, used: int) -> None:
        """Note the bytes that a new disk has."""
        self._volumes.label(disk, {BASE: str(used)})

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
