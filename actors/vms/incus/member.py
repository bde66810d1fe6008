"""The members of an engine, with what each has left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from actors.vms.incus.engine import EngineError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.vms.incus.engine import Engine

__all__ = ["Member", "member_urls", "members"]

_ONLINE = "Online"
_MEMORY = 1 << 20


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an engine. ``state`` is the engine's word; sizes are None where it does not answer."""

    name: str
    state: str
    message: str
    cpus: int | None = None
    memory_mb: int | None = None
    memory_free_mb: int | None = None

    @property
    def online(self) -> bool:
        """True if the member takes new VMs."""
        return self.state == _ONLINE


def members(engine: Engine) -> list[Member]:
    """Return the members by name; an engine without a cluster is one. Raises EngineError and EngineAway."""
    environment = engine.get("/1.0")["environment"]
    if not environment.get("server_clustered"):
        return [_member(environment.get("server_name") or "the server", _ONLINE, "", _resources(engine, None))]
    found = engine.get("/1.0/cluster/members", {"recursion": 1})
    return sorted((_of_cluster(engine, each) for each in found), key=lambda member: member.name)


def member_urls(engine: Engine) -> tuple[str, ...]:
    """Return the addresses at which the members serve the API by TLS: of all, not only of the one asked."""
    environment = engine.get("/1.0")["environment"]
    if not environment.get("server_clustered"):
        return tuple(f"https://{each}" for each in environment.get("addresses") or ())
    return tuple(sorted(each["url"] for each in engine.get("/1.0/cluster/members", {"recursion": 1})))


def _of_cluster(engine: Engine, found: Mapping[str, Any]) -> Member:
    name, state = found["server_name"], found["status"]
    resources = _resources(engine, name) if state == _ONLINE else None
    return _member(name, state, found.get("message", ""), resources)


def _member(name: str, state: str, message: str, resources: Mapping[str, Any] | None) -> Member:
    if resources is None:
        return Member(name, state, message)
    memory = resources["memory"]
    free = memory["total"] - memory["used"]
    return Member(name, state, message, resources["cpu"]["total"], memory["total"] // _MEMORY, free // _MEMORY)


def _resources(engine: Engine, member: str | None) -> Mapping[str, Any] | None:
    """Return the hardware of a member, or None if this caller may not see it."""
    try:
        found: Mapping[str, Any] = engine.get("/1.0/resources", {} if member is None else {"target": member})
    except EngineError:
        return None
    return found
