"""Reports of members about themselves, each asked at its own address, and what the service has there."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import httpx
from cryptography import x509

from actors.vms.incus.engine import Engine, part
from actors.vms.incus.fleet import Member, member_of, member_urls, members
from actors.vms.incus.instances import makes_machines
from actors.vms.incus.refusals import EngineAway, EngineError
from actors.vms.incus.volumes import IMAGE, Names, Volumes, names_of
from storage import error_reason, immutable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from actors.vms.incus.engine import Access
    from actors.vms.settings import IncusSettings


_CONTROL_GROUP = "cgroup"
_ANSWER_SECONDS = 10.0


@immutable
class MemberReport:
    """A member's answers.

    ``seconds_ahead`` is how far its clock is before this host's, to a second; None at a socket, where it is the same
    clock. ``missing_limits`` is None if this caller may not see the member's warnings. ``makes_machines`` is False if
    it makes containers alone.
    """

    name: str
    version: str
    driver: str
    free_bytes: int
    total_bytes: int
    certificate_ends: datetime | None
    seconds_ahead: float | None
    missing_limits: tuple[str, ...] | None
    makes_machines: bool


def member_addresses(engine: Engine) -> tuple[str, ...]:
    """Return the addresses of all members of a cluster; else those in use, none for a socket.

    Raises EngineError and EngineAway.
    """
    if not engine.access.over_tls or not engine.get("/1.0")["environment"].get("server_clustered"):
        return engine.access.addresses
    return member_urls(engine)


def inspect_member(access: Access, address: str | None, project: str, pool: str) -> MemberReport:
    """Ask the member at an address, or at the socket if that is None. Raises EngineError and EngineAway."""
    with closing(Engine(replace(access, addresses=(address,) if address else ()), project)) as engine:
        environment = engine.get("/1.0")["environment"]
        name = environment.get("server_name") or "the server"
        at = {"target": name} if environment.get("server_clustered") else {}
        path = f"/1.0/storage-pools/{part(pool)}"
        driver, space = engine.get(path)["driver"], engine.get(f"{path}/resources", at)["space"]
        total = space["total"]
        return MemberReport(
            name, environment["server_version"], driver, total - space["used"], total,
            _end(environment), _seconds_ahead(access, address), _missing_limits(engine, name),
            makes_machines(environment),
        )  # fmt: skip


def _end(environment: Mapping[str, Any]) -> datetime | None:
    shown = environment.get("certificate")
    if not shown:
        return None
    return x509.load_pem_x509_certificate(shown.encode()).not_valid_after_utc


def _seconds_ahead(access: Access, address: str | None) -> float | None:
    if address is None:
        return None
    try:
        answer = httpx.get(address, verify=access.tls(), timeout=_ANSWER_SECONDS, trust_env=False)
        shown = parsedate_to_datetime(answer.headers["date"])
    except httpx.HTTPError as error:
        message = f"the engine does not answer at {address} ({error_reason(error)}): is it running?"
        raise EngineAway(message) from error
    except (KeyError, ValueError):
        return None
    return (shown - datetime.now(UTC)).total_seconds()


def _missing_limits(engine: Engine, name: str) -> tuple[str, ...] | None:
    """Return the engine's warnings of control groups that it lacks; it shows them to administrators alone."""
    try:
        found = engine.get("/1.0/warnings", {"recursion": 1, "project": ""})  # they are of no project
    except EngineAway:
        raise
    except EngineError:
        return None
    here = [warning["type"] for warning in found if warning.get("location") in {"", "none", name}]
    return tuple(sorted({each for each in here if _CONTROL_GROUP in each.lower()}))


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
