"""The members of an engine with what the service has on each."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from actors.vms.incus.member import Member, members
from actors.vms.incus.names import IMAGE, Names
from actors.vms.incus.places import member_of
from actors.vms.incus.volumes import Volumes, names_of
from storage import immutable

if TYPE_CHECKING:
    from pathlib import Path

    from actors.vms.incus.engine import Engine
    from actors.vms.settings import IncusSettings


@immutable
class MemberContents:
    """A member, the number of the service's instances and snapshots on it, and the names of its images."""

    member: Member
    instances: int
    snapshots: int
    images: tuple[str, ...]


def contents(engine: Engine, settings: IncusSettings, folder: Path) -> list[MemberContents]:
    """Return the members by name, with what is on each; members that are offline are not waited for.

    ``folder`` is the provider's. Raises EngineError and EngineAway.
    """
    found, names = members(engine), Names(settings.prefix)
    alone = found[0].name if len(found) == 1 else None
    vms = names.of_kind("vm", names_of(engine.get("/1.0/instances")))
    instances = Counter(alone or member_of(folder / "vms" / vm_id) for vm_id in vms)
    snapshots: Counter[str | None] = Counter()
    images: defaultdict[str | None, set[str]] = defaultdict(set)
    for volume in Volumes(engine, settings.storage).all():
        member = alone or volume.member
        if any(names.of_kind("snapshot", [volume.name])):
            snapshots[member] += 1
        elif any(names.of_kind("image", [volume.name])):
            images[member].add(volume.labels.get(IMAGE, volume.name))
    return [
        MemberContents(each, instances[each.name], snapshots[each.name], tuple(sorted(images[each.name])))
        for each in found
    ]
