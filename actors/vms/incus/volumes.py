"""Volumes of a storage pool, and the names and labels of all that the service has on an engine.

A volume is a folder for instances, which is copied without its content.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from actors.vms.host.vms import check_disk_name
from actors.vms.incus.engine import operation_of, part
from actors.vms.incus.refusals import NotFound
from actors.vms.provider import VmError
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from actors.vms.incus.engine import Engine


OWNER = "user.ci-daemon.owner"
"""The label of an instance or volume of the service; its value is the service's prefix."""

IMAGE, STAMP = "user.ci-daemon.image", "user.ci-daemon.stamp"
PARENT = "user.ci-daemon.parent"
"""The snapshot that a disk or snapshot starts from; empty if it starts from an image."""

BYTES = "user.ci-daemon.bytes"
"""The bytes of a snapshot beyond the one below it, as they were measured when it was made."""

BASE = "user.ci-daemon.base"
"""The bytes that a disk has had from its start and does not share with its parent."""

BASE_OF_SERVICES = "user.ci-daemon.base-of-services"
"""The same of all disks of services beside it, together."""

_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,46}[A-Za-z0-9])?")


@immutable
class Names:
    """The names that begin with one service's prefix."""

    prefix: str

    def vm(self, vm_id: str) -> str:
        """Return the name of a VM's instance. Raises VmError if it can have none."""
        check_disk_name(vm_id)
        if not _HOST_NAME.fullmatch(vm_id):
            message = f"{vm_id!r} is not a valid name of an instance: use at most 48 letters, digits and '-'"
            raise VmError(message)
        return f"{self.prefix}-vm-{vm_id}"

    def disk(self, vm_id: str) -> str:
        """Return the name of the volume of a VM's disk."""
        return f"{self.prefix}-disk-{vm_id}"

    def service(self, vm_id: str, number: int) -> str:
        """Return the name of the volume of one of a VM's services."""
        return f"{self.prefix}-service-{vm_id}-{number}"

    def services(self, names: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield the volumes of services among those of these names, each with its VM's id."""
        for each in self.of_kind("service", names):
            yield f"{self.prefix}-service-{each}", each.rpartition("-")[0]

    def snapshot(self, name: str) -> str:
        """Return the name of the volume of a snapshot. Raises VmError if it can have none."""
        return f"{self.prefix}-snapshot-{check_disk_name(name)}"

    def image(self, key: str) -> str:
        """Return the name of the volume of an image."""
        return f"{self.prefix}-image-{key}"

    def filling(self, key: str) -> str:
        """Return the name of the volume and of the instance by which an image is being published."""
        return f"{self.prefix}-fill-{key}"

    def outer(self, kind: str, key: str) -> str:
        """Return the alias of the image of a kind of outer layers."""
        return f"{self.prefix}-{kind}-{key}"

    def own(self, labels: Mapping[str, str]) -> bool:
        """Tell whether something with these labels is the service's."""
        return labels.get(OWNER) == self.prefix

    def of_kind(self, kind: str, names: Iterable[str]) -> Iterator[str]:
        """Yield what follows the prefix and the ``kind`` in those names that have both."""
        begin = f"{self.prefix}-{kind}-"
        return (name.removeprefix(begin) for name in names if name.startswith(begin))


SHIFTED = "security.shifted"
"""The label "true" of a volume whose files have the ids that instances see.

The engine maps them as it mounts the volume, so it need not change the files for each instance.
"""

_OWNERS = (SHIFTED, "volatile.idmap.last", "volatile.idmap.next")
"""The labels by which the engine knows whose the files of a volume are on its disk."""

_COPY_SECONDS = 1800.0


@immutable
class Volume:
    """A volume with its labels; ``member`` is None if the engine is no cluster."""

    name: str
    member: str | None
    labels: Mapping[str, str]


class Volumes:
    """The service's volumes in a pool. Each is on the disk of one member."""

    def __init__(self, engine: Engine, pool: str) -> None:
        self._engine = engine
        self.pool = pool
        self._path = f"/1.0/storage-pools/{part(pool)}/volumes/custom"

    def names(self) -> Iterable[str]:
        """Return the names of all volumes of the project, by one cheap request."""
        return names_of(self._engine.get(self._path))

    def member(self, name: str) -> str | None:
        """Return the member that has a volume, which need not answer; None without a cluster."""
        for path in self._engine.get(self._path):
            own, _, query = path.partition("?")
            if own.rpartition("/")[2] == name:
                return dict(parse_qsl(query)).get("target")
        return None

    def all(self) -> list[Volume]:
        """Return all volumes of the project."""
        return [_volume(found) for found in self._engine.get(self._path, {"recursion": 1})]

    def find(self, name: str, member: str | None = None) -> Volume | None:
        """Return a volume, or None; by its ``member`` too if others may have one of its name."""
        try:
            return _volume(self._engine.get(f"{self._path}/{part(name)}", _on(member)))
        except NotFound:
            return None

    def make(self, name: str, labels: Mapping[str, str], member: str | None) -> Volume:
        """Make an empty volume on a member. Raises EngineError, if there is one of that name too."""
        self._engine.do("POST", self._path, _body(name, labels), _on(member))
        return Volume(name, member, labels)

    def copy(
        self, source: Volume, name: str, labels: Mapping[str, str], member: str | None, size: str | None = None
    ) -> Volume:
        """Copy a volume; at once on its own member, by its content to another.

        The copy has its own labels, and the source's notes of whose the files are. Raises EngineError and
        EngineAway.
        """
        owners = {key: source.labels[key] for key in _OWNERS if key in source.labels}
        of = self._here(source) if source.member == member else self._there(source)
        body = {**_body(name, {**labels, **owners}, size), "source": of}
        self._engine.do("POST", self._path, body, _on(member), seconds=_COPY_SECONDS)
        return Volume(name, member, labels)

    def _here(self, source: Volume) -> dict[str, Any]:
        return {"type": "copy", "name": source.name, "pool": self.pool, "volume_only": True}

    def _there(self, source: Volume) -> dict[str, Any]:
        """Begin to send a volume from its member; return how another one takes it.

        By itself, a member copies another's volume for administrators alone.
        """
        home = self._engine.get(f"/1.0/cluster/members/{part(source.member or '')}")["url"]
        certificate = self._engine.get("/1.0")["environment"]["certificate"]
        body = {"name": source.name, "migration": True, "volume_only": True}
        sending = self._engine.begin("POST", f"{self._path}/{part(source.name)}", body, _on(source.member))
        return {
            "type": "migration", "mode": "pull", "volume_only": True, "certificate": certificate,
            "operation": f"{home}{operation_of(sending)}", "secrets": sending["metadata"]["metadata"],
        }  # fmt: skip

    def rename(self, volume: Volume, name: str) -> None:
        """Rename a volume that no instance uses. Raises EngineError, if the name is taken too."""
        self._engine.do("POST", f"{self._path}/{part(volume.name)}", {"name": name}, _on(volume.member))

    def label(self, volume: Volume, labels: Mapping[str, str]) -> None:
        """Add labels to a volume."""
        self._engine.do("PATCH", f"{self._path}/{part(volume.name)}", {"config": dict(labels)}, _on(volume.member))

    def used_bytes(self, volume: Volume) -> int:
        """Return the bytes that a volume takes on the disk, without those that it shares with others."""
        state = self._engine.get_at_home(volume.member, f"{self._path}/{part(volume.name)}/state")
        return int((state.get("usage") or {}).get("used", 0))

    def remove(self, volume: Volume) -> None:
        """Remove a volume that no instance uses; one that is gone is fine."""
        try:
            self._engine.do("DELETE", f"{self._path}/{part(volume.name)}", None, _on(volume.member))
        except NotFound:
            return

    def device(self, name: str, path: str) -> dict[str, str]:
        """Return the device by which an instance has a volume at a path."""
        return {"type": "disk", "pool": self.pool, "source": name, "path": path}


def names_of(paths: Iterable[str]) -> list[str]:
    """Return the names at the end of the paths by which the engine lists things."""
    return [path.partition("?")[0].rpartition("/")[2] for path in paths]


def _body(name: str, labels: Mapping[str, str], size: str | None = None) -> dict[str, Any]:
    config = {**labels} | ({} if size is None else {"size": size})
    return {"name": name, "type": "custom", "content_type": "filesystem", "config": config}


def _volume(found: Mapping[str, Any]) -> Volume:
    location = found.get("location") or "none"
    return Volume(found["name"], None if location == "none" else location, found.get("config") or {})


def _on(member: str | None) -> dict[str, str]:
    return {} if member is None else {"target": member}
