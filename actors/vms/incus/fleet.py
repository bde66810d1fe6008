"""The members of an engine, and the choice of one for each VM.

They are chosen one at a time, so that none is chosen ten times at once. Their size, as last known, is in a file: caps
need no answer of the engine.
"""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

from actors.vms.description import HostSize
from actors.vms.incus.refusals import EngineAway, EngineError
from actors.vms.provider import VmLost
from storage import Shape, immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from actors.vms.incus.engine import Engine
    from storage import Clock


_ONLINE, _OFFLINE = "Online", "Offline"
_MEMORY = 1 << 20
_VOTERS = frozenset({"database", "database-leader"})


@immutable
class Member:
    """A member of an engine. ``state`` is the engine's word; sizes are None where it does not answer.

    One that is ``draining`` keeps its VMs and gets no others: its `scheduler.instance` is `manual`. The database
    answers while most members answer that have a vote (``votes``).
    """

    name: str
    state: str
    message: str
    cpus: int | None = None
    memory_mb: int | None = None
    memory_free_mb: int | None = None
    draining: bool = False
    votes: bool = False

    @property
    def takes_vms(self) -> bool:
        """True if the member takes new VMs."""
        return self.state == _ONLINE and not self.draining

    @property
    def answers(self) -> bool:
        """False if the other members do not reach it; one that is evacuated answers."""
        return self.state != _OFFLINE

    @classmethod
    def of_cluster(cls, found: Mapping[str, Any]) -> Member:
        """Return a member without its sizes, as the engine lists it."""
        draining = (found.get("config") or {}).get("scheduler.instance") == "manual"
        votes = not _VOTERS.isdisjoint(found.get("roles") or ())
        return cls(found["server_name"], found["status"], found.get("message", ""), draining=draining, votes=votes)


def members(engine: Engine) -> list[Member]:
    """Return the members by name; an engine without a cluster is one. Raises EngineError and EngineAway."""
    environment = engine.get("/1.0")["environment"]
    if not environment.get("server_clustered"):
        return [_sized(Member(environment.get("server_name") or "the server", _ONLINE, ""), _resources(engine, None))]
    found = engine.get("/1.0/cluster/members", {"recursion": 1})
    return sorted((_of_cluster(engine, each) for each in found), key=lambda member: member.name)


def is_current(listed: Sequence[Member]) -> bool:
    """Tell whether the states in an engine's list are those of now.

    After the engine's database lost its leader, for some seconds it reports all members as offline, even the answering
    one. So a list is out of date if most voters in it are offline.
    """
    voters = [member for member in listed if member.votes]
    return not voters or 2 * sum(member.answers for member in voters) > len(voters)


def member_urls(engine: Engine) -> tuple[str, ...]:
    """Return the addresses at which the members serve the API by TLS: of all, not only of the one asked."""
    environment = engine.get("/1.0")["environment"]
    if not environment.get("server_clustered"):
        return tuple(f"https://{each}" for each in environment.get("addresses") or ())
    return tuple(sorted(each["url"] for each in engine.get("/1.0/cluster/members", {"recursion": 1})))


def _of_cluster(engine: Engine, found: Mapping[str, Any]) -> Member:
    member = Member.of_cluster(found)
    return _sized(member, _resources(engine, member.name) if member.state == _ONLINE else None)


def _sized(member: Member, resources: Mapping[str, Any] | None) -> Member:
    if resources is None:
        return member
    memory = resources["memory"]
    total, free = memory["total"] // _MEMORY, (memory["total"] - memory["used"]) // _MEMORY
    return replace(member, cpus=resources["cpu"]["total"], memory_mb=total, memory_free_mb=free)


def _resources(engine: Engine, member: str | None) -> Mapping[str, Any] | None:
    """Return the hardware of a member, or None if this caller may not see it."""
    try:
        found: Mapping[str, Any] = engine.get("/1.0/resources", {} if member is None else {"target": member})
    except EngineError:
        return None
    return found


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


_MB = 1024
_VCPUS_OF_A_CORE = 4
"""The vCPUs per core at which a member is full; the lease pool has the same default."""


def choose(
    members: Iterable[Member], placed: Sequence[tuple[str, Shape]], shape: Shape, parent: str | None
) -> str | None:
    """Return the member for a VM of a shape; None if none takes any.

    ``placed`` has the member and shape of each VM. A VM is made where its parent's disk is; else where the largest part
    is free. The disk is copied only away from a member that is full, takes no VMs, or has too few processors for the
    VM, to one that has room: that takes seconds, and a place comes free when a job ends.
    """
    online = [member for member in members if member.takes_vms]
    taking = [member for member in online if member.cpus is None or member.cpus >= shape.cpu] or online
    on = {member.name: [each for name, each in placed if name == member.name] for member in taking}
    fit = {member.name for member in taking if _fits(member, [*on[member.name], shape])}
    if parent in on and (parent in fit or not fit):
        return parent
    free = {member.name: _free(member, on[member.name]) for member in taking}
    return max(sorted(free), key=lambda name: (name in fit, free[name]), default=None)


def _fits(member: Member, shapes: Sequence[Shape]) -> bool:
    """Tell whether a member has the memory for VMs of these shapes, and the processors."""
    vcpus, memory = sum(shape.cpu for shape in shapes), sum(shape.memory_gb for shape in shapes) * _MB
    return vcpus <= (member.cpus or 1) * _VCPUS_OF_A_CORE and (member.memory_mb is None or memory <= member.memory_mb)


def _free(member: Member, shapes: Sequence[Shape]) -> float:
    """Return the part of a member that VMs of these shapes leave; negative if they are too many.

    A member of unknown size counts as having one processor.
    """
    cpu = 1 - sum(shape.cpu for shape in shapes) / (member.cpus or 1)
    if member.memory_mb is None:
        return cpu
    return min(cpu, 1 - sum(shape.memory_gb for shape in shapes) * _MB / member.memory_mb)


_FILE = "size"


def known_size(folder: Path) -> HostSize:
    """Return the size of the members that take VMs; that of this host until it is known."""
    try:
        return HostSize(*json.loads((folder / _FILE).read_bytes()))
    except (FileNotFoundError, ValueError, TypeError):
        return HostSize.here()


def note_size(folder: Path, size: HostSize) -> None:
    """Note a size for this process and others."""
    written = folder / f"{_FILE}.new"
    written.write_text(json.dumps([size.cpus, size.memory_gb]), encoding="utf-8")
    written.rename(folder / _FILE)


def size_of(members: Iterable[Member]) -> HostSize | None:
    """Return the size of those members that take VMs, all together; None if that of none is known."""
    sized = [each for each in members if each.takes_vms and each.cpus and each.memory_mb]
    if not sized:
        return None
    return HostSize(sum(each.cpus or 0 for each in sized), sum(each.memory_mb or 0 for each in sized) // _MB)
