"""The host as its owner looks at it: its state, the members of its engine, and what is wrong with it."""

from __future__ import annotations

from collections import Counter
from datetime import datetime  # noqa: TC003 - a command reads the annotations
from typing import TYPE_CHECKING, Annotated

from api.operations.operation import GET, Call, owners_operation
from storage import LeaseState, ServiceFailure, immutable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage import Storage

_FAILURES = 5


@immutable
class HostState:
    """The state of the host: what waits, what has a VM, and what the service made fail last.

    ``vms`` counts leases by their state, of which jobs and renders may have ``most_vms`` at once. ``damage`` says what
    is wrong with the database; ``drained_since`` is None on a host that gives VMs to jobs.
    """

    drained_since: datetime | None
    queued_jobs: int
    oldest_queued_at: datetime | None
    vms: Mapping[str, int]
    most_vms: int
    damage: str | None
    failures: tuple[ServiceFailure, ...]


@immutable
class HostMember:
    """A member of the engine that makes VMs, and what the service has on it.

    Sizes are None if it does not answer.
    """

    name: str
    state: str
    draining: bool
    message: str
    cpus: int | None
    memory_mb: int | None
    memory_free_mb: int | None
    vms: int
    snapshots: int
    images: tuple[str, ...]


@immutable
class Finding:
    """The result of a check of the host, and the command that mends a failure.

    The service runs without what is not ``needed``.
    """

    name: str
    ok: bool
    needed: bool
    detail: str
    mend: str | None


@owners_operation("getHostState", GET, "/host")
def get_host_state(call: Call) -> HostState:
    """Show the state of the host at one look."""
    storage = call.storage
    return HostState(
        drained_since=storage.switches.drained_since(),
        queued_jobs=storage.queue.length(),
        oldest_queued_at=storage.queue.oldest(),
        vms=lease_counts(storage),
        most_vms=call.box.capacity.vms,
        damage=storage.integrity.damage,
        failures=tuple(storage.service_failures.latest(_FAILURES)),
    )


def lease_counts(storage: Storage) -> dict[str, int]:
    """Return how many VMs there are by state; one that is kept for a person is held."""
    counts, held = Counter(storage.leases.counts()), len(storage.holds.open())
    counts[LeaseState.ACTIVE] -= held
    return {state.value: count for state, count in counts.items() if count > 0} | ({"held": held} if held else {})


@owners_operation("listHostMembers", GET, "/members")
def list_host_members(call: Call) -> Annotated[list[HostMember], "The members by name."]:
    """List the members of the engine that makes VMs; none if the host makes them. Raises VmError."""
    return list(call.box.members())


@owners_operation("examineHost", GET, "/doctor")
def examine_host(call: Call) -> Annotated[list[Finding], "The results of all checks."]:
    """Check the host and the state directory, as `ci-daemon doctor` does, in seconds. Raises Refused."""
    return list(call.box.examine())
