"""The members that VMs are on: chosen one at a time, so that none is chosen ten times at once."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

from actors.vms.incus.member import Member, members
from actors.vms.incus.placement import choose
from actors.vms.provider import VmError
from storage import Shape

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from actors.vms.incus.engine import Engine

__all__ = ["Places"]

_PLACE = "place"
_PARKED = Shape(cpu=1, memory_gb=1)


class Places:
    """The places of the VMs of a folder, each kept in its VM's own. Safe in any thread.

    On an engine that is no cluster, each place is None.
    """

    def __init__(self, engine: Engine, vms: Path) -> None:
        self._engine = engine
        self._vms = vms
        self._lock = threading.Lock()
        self._sizes: dict[str, Member] = {}
        self._clustered: bool | None = None

    def take(self, vm_id: str, parent: str | None, shape: Shape = _PARKED) -> str | None:
        """Choose the member of a new VM and note it. Raises VmError if no member takes VMs, and EngineAway."""
        if not self._is_cluster():
            return None
        online = self._members()
        with self._lock:
            member = choose(online, list(self._placed()), parent)
            if member is None:
                states = ", ".join(f"{each.name} is {each.state.lower()}" for each in online)
                message = f"no member of the engine takes VMs: {states}"
                raise VmError(message)
            self._note(vm_id, member, shape)
        return member

    def of(self, vm_id: str) -> str | None:
        """Return the member of a VM."""
        found = self._read(self._vms / vm_id)
        return None if found is None else found[0]

    def grow(self, vm_id: str, shape: Shape) -> None:
        """Note the shape that a VM gets with its job."""
        with self._lock:
            if (member := self.of(vm_id)) is not None:
                self._note(vm_id, member, shape)

    def _is_cluster(self) -> bool:
        if self._clustered is None:
            self._clustered = bool(self._engine.get("/1.0")["environment"].get("server_clustered"))
        return self._clustered

    def _members(self) -> list[Member]:
        """Return the members with their states as they are now; the sizes are looked up once."""
        found = self._engine.get("/1.0/cluster/members", {"recursion": 1})
        states = {each["server_name"]: (each["status"], each.get("message", "")) for each in found}
        now = [Member(name, *state) for name, state in sorted(states.items())]
        if any(member.online and member.name not in self._sizes for member in now):
            self._sizes = {member.name: member for member in members(self._engine) if member.online}
        sizes = ((member, self._sizes.get(member.name, member)) for member in now)
        return [Member(each.name, each.state, each.message, size.cpus, size.memory_mb) for each, size in sizes]

    def _placed(self) -> Iterator[tuple[str, Shape]]:
        return filter(None, map(self._read, self._vms.iterdir()))

    def _note(self, vm_id: str, member: str, shape: Shape) -> None:
        noted = self._vms / vm_id / f"{_PLACE}.new"
        noted.write_text(json.dumps([member, shape.cpu, shape.memory_gb]), encoding="utf-8")
        noted.rename(self._vms / vm_id / _PLACE)

    def _read(self, folder: Path) -> tuple[str, Shape] | None:
        try:
            member, cpu, memory_gb = json.loads((folder / _PLACE).read_bytes())
        except (FileNotFoundError, ValueError):
            return None
        return member, Shape(cpu=cpu, memory_gb=memory_gb)
