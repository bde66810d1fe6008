"""Names and labels of all that the service has in its project of the engine."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from actors.vms.host.vms import check_disk_name
from actors.vms.provider import VmError
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

OWNER = "user.ci-daemon.owner"
"""The label of an instance or volume of the service; its value is the service's prefix."""

IMAGE, STAMP = "user.ci-daemon.image", "user.ci-daemon.stamp"
PARENT = "user.ci-daemon.parent"
"""The snapshot that a disk or snapshot starts from; empty if it starts from an image."""

BYTES = "user.ci-daemon.bytes"
"""The bytes of a snapshot beyond the one below it, as they were measured when it was made."""

BASE = "user.ci-daemon.base"
"""The bytes that a disk has had from its start and does not share with its parent."""

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
