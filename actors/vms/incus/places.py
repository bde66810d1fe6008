"""The members that VMs are on: chosen one at a time, so that none is chosen ten times at once."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from actors.vms.incus.fleet_size import known_size, note_size, size_of
from actors.vms.incus.member import Member, is_current, members
from actors.vms.incus.placement import choose
from actors.vms.incus.refusals import EngineAway, EngineError
from actors.vms.provider import VmLost
from storage import Shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from actors.vms.description import HostSize
    from actors.vms.incus.engine import Engine
    from storage import Clock

_PLACE = "place"
_PARKED = Shape(cpu=1, memory_gb=1)
_FRESH_SECONDS = 1.0


class Places:
    """The places of the VMs of a folder, each kept in its VM's own folder. Safe in any thread.

    On an engine that is no cluster, each place is None. A member that is offline for ``lost_seconds`` is lost.
    """

    def __init__(self, engine: Engine, vms: Path, clock: Clock, lost_seconds: float) -> None:
        self._engine = engine
        self._vms = vms
        self._clock = clock
        self._lost_seconds = lost_seconds
        self._lock = threading.Lock()
        self._sizes: dict[str, Member] = {}
        self._size: HostSize | None = None
        self._clustered: bool | None = None
        self._seen: tuple[float, Sequence[Member]] = (-inf, ())
        self._silent_since: dict[str, float] = {}

    def take(self, vm_id: str, parent: str | None, shape: Shape = _PARKED) -> str | None:
        """Choose the member of a new VM and note it. Raises EngineAway, also if no member takes VMs."""
        if not self._is_cluster():
            if self._size is None:
                self._note_size(members(self._engine))
            return None
        found = self._with_sizes(self._members(fresh_seconds=0))
        self._note_size(found)
        with self._lock:
            member = choose(found, list(self._placed()), shape, parent)
            if member is None:
                states = ", ".join(f"{each.name} is {_state(each)}" for each in found)
                message = f"no member of the engine takes VMs: {states}"
                raise EngineAway(message)
            self._note(vm_id, member, shape)
        return member

    def of(self, vm_id: str) -> str | None:
        """Return the member of a VM."""
        return member_of(self._vms / vm_id)

    def grow(self, vm_id: str, shape: Shape) -> None:
        """Note the shape that a VM gets with its job."""
        with self._lock:
            if (member := self.of(vm_id)) is not None:
                self._note(vm_id, member, shape)

    def check(self, member: str | None) -> None:
        """Raise VmLost if a member is lost, EngineAway if it is just offline, or nobody can tell."""
        if member is None or not self._is_cluster() or self._answers(member):
            return
        silent = self._clock.monotonic() - self._silent_since.get(member, self._clock.monotonic())
        if silent < self._lost_seconds:
            message = f"the member {member} is offline: it counts as lost in {self._lost_seconds - silent:.0f} s"
            raise EngineAway(message)
        message = f"the member {member} is offline: what is on it is removed when it returns"
        raise VmLost(message)

    def takes_vms(self, member: str | None) -> bool:
        """Tell whether a job may begin on a member. Raises EngineAway if nobody can tell."""
        if member is None or not self._is_cluster():
            return True
        return any(each.takes_vms for each in self._members() if each.name == member)

    def size(self) -> HostSize:
        """Return the size of the members that take VMs, as last known."""
        return known_size(self._vms.parent) if self._size is None else self._size

    def _note_size(self, found: Sequence[Member]) -> None:
        size = size_of(found)
        if size is not None and size != self._size:
            note_size(self._vms.parent, size)
            self._size = size

    def _answers(self, member: str) -> bool:
        return all(each.answers for each in self._members() if each.name == member)

    def _is_cluster(self) -> bool:
        if self._clustered is None:
            self._clustered = bool(self._engine.get("/1.0")["environment"].get("server_clustered"))
        return self._clustered

    def _members(self, fresh_seconds: float = _FRESH_SECONDS) -> Sequence[Member]:
        """Return the members with their states as they are now, or were a moment ago."""
        at, found = self._seen
        if self._clock.monotonic() - at <= fresh_seconds:
            return found
        try:
            listed = self._engine.get("/1.0/cluster/members", {"recursion": 1})
        except EngineError as error:  # it has them, so something is wrong with the engine
            message = f"the engine does not list its members: {error}"
            raise EngineAway(message) from error
        found = sorted(map(Member.of_cluster, listed), key=lambda member: member.name)
        if not is_current(found):
            message = "the engine has a new leader, which does not yet know the states of the members"
            raise EngineAway(message)
        now = self._clock.monotonic()
        with self._lock:
            self._silent_since = {
                each.name: self._silent_since.get(each.name, now) for each in found if not each.answers
            }
            self._seen = (now, found)
        return found

    def _with_sizes(self, found: Sequence[Member]) -> list[Member]:
        """Add the members' sizes, which are looked up once."""
        if any(member.takes_vms and member.name not in self._sizes for member in found):
            self._sizes |= {member.name: member for member in members(self._engine) if member.cpus is not None}
        sizes = ((member, self._sizes.get(member.name, member)) for member in found)
        return [replace(each, cpus=size.cpus, memory_mb=size.memory_mb) for each, size in sizes]

    def _placed(self) -> Iterator[tuple[str, Shape]]:
        return filter(None, map(_read, self._vms.iterdir()))

    def _note(self, vm_id: str, member: str, shape: Shape) -> None:
        noted = self._vms / vm_id / f"{_PLACE}.new"
        noted.write_text(json.dumps([member, shape.cpu, shape.memory_gb]), encoding="utf-8")
        noted.rename(self._vms / vm_id / _PLACE)


def member_of(folder: Path) -> str | None:
    """Return the member that is noted in a VM's folder."""
    found = _read(folder)
    return None if found is None else found[0]


def _read(folder: Path) -> tuple[str, Shape] | None:
    try:
        member, cpu, memory_gb = json.loads((folder / _PLACE).read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return member, Shape(cpu=cpu, memory_gb=memory_gb)


def _state(member: Member) -> str:
    return "draining" if member.draining else member.state.lower()
