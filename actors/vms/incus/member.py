"""The members of an engine, with what each has left."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from actors.vms.incus.refusals import EngineError
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actors.vms.incus.engine import Engine

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
