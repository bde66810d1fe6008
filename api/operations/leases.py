"""VMs of jobs and parked VMs, for the owner of the host (engine.md, "Leases")."""

from __future__ import annotations

from collections import Counter
from datetime import datetime  # noqa: TC003 - a command reads the annotations
from typing import TYPE_CHECKING

from actors.vms import VmError
from api.operations.operation import DELETE, GET, Call, owners_operation
from storage import MICRO_CENTS, HoldEnd, cost_cents, immutable, shown_as

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from storage import Build, Hold, Job, Lease, Storage


@immutable
class LeasedVm:
    """A lease whose VM may exist, with its build and job, and its cost in cents until now.

    ``state`` is "held" if its job is over and the VM is kept; ``job`` is "rendering" in a VM that renders a build.
    """

    uuid: str
    state: str
    age_seconds: int
    organization: str | None
    build: str | None
    job: str | None
    job_uuid: str | None = shown_as("job_id")
    attempt: int | None
    provider: str
    member: str | None
    image: str | None
    cpu: int
    memory_gb: int
    disk_gb: int
    network: bool
    cents: int
    created_at: datetime
    started_at: datetime | None
    held_until: datetime | None


@immutable
class LeaseSelection:
    """The leases of a state, of all by default: at most ``limit`` past the first ``start``."""

    state: str | None = None
    by_cost: bool = False
    start: int = 0
    limit: int | None = None


@immutable
class LeasedVms:
    """The selected leases, and how many there are in each state."""

    vms: tuple[LeasedVm, ...]
    states: Mapping[str, int]


@immutable
class HostVm:
    """A VM of a provider."""

    uuid: str
    provider: str


@immutable
class HostVms:
    """All VMs, also those that no lease knows of; ``away`` are the errors of providers that may have more."""

    vms: tuple[HostVm, ...]
    away: tuple[str, ...]


@immutable
class KillVmRequest:
    """The body of `kill_vm`: the provider of the VM."""

    provider: str


@immutable
class KilledVm:
    """A VM that was ended, with its build and step; ``error`` is why it may still exist."""

    organization: str | None
    effect: str
    error: str | None


@owners_operation("listLeases", GET, "/leases")
def list_leases(call: Call, body: LeaseSelection) -> LeasedVms:
    """List the leases whose VM may exist, oldest first or most expensive first."""
    storage, now = call.storage, call.clock.now()
    holds = {each.lease_id: each for each in storage.holds.open()}
    leases = storage.leases.live()
    chosen = [each for each in leases if body.state in {None, _state(each, holds)}]
    if body.by_cost:
        chosen.sort(key=lambda each: -_cents(each, holds.get(each.id), storage, now))
    part = chosen[body.start : None if body.limit is None else body.start + body.limit]
    states = Counter(_state(each, holds) for each in leases)
    return LeasedVms(tuple(_leased(each, holds.get(each.id), storage, now) for each in part), states)


@owners_operation("listVms", GET, "/vms")
def list_vms(call: Call) -> HostVms:
    """List the VMs of all leases and of all providers, by their ids."""
    found = {each.uuid: each.provider for each in call.storage.leases.live()}
    away = []
    for provider in call.box.providers:
        try:
            found.update((vm_id, provider.name) for vm_id in provider.list())
        except VmError as error:  # an engine that is away keeps no other provider's VMs alive
            away.append(str(error))
    return HostVms(tuple(HostVm(vm_id, found[vm_id]) for vm_id in sorted(found)), tuple(away))


@owners_operation("killVm", DELETE, "/vms/{id}")
def kill_vm(call: Call, id: str, body: KillVmRequest) -> KilledVm:
    """End a VM, and its lease and hold if it has them.

    A running job loses its VM and gets another attempt, or fails with vm_lost.
    """
    storage = call.storage
    lease = next((each for each in storage.leases.live() if each.uuid == id), None)
    build, job = (None, None) if lease is None else _build_and_job(lease, storage)
    hold = None if lease is None else storage.holds.of_lease(lease.id)
    if hold is not None:  # before its VM ends, or the service would take that for a lost VM
        storage.holds.shorten(hold.id, HoldEnd.KILLED)
    if lease is not None:  # likewise: so that the job's failure does not count as the service's fault
        storage.leases.kill(lease.id, call.actor)
    error = None
    try:
        call.box.providers.named(body.provider).destroy(id)
    except VmError as failed:
        error = f"{id}: {failed}"
    if lease is not None and error is None:
        _record_end(storage, lease, hold, serves=call.box.serves())
    of = " ".join((build.name, *(() if job is None else (job.step_key,)))) if build else ""
    return KilledVm(None if build is None else build.organization_slug, of, error)


def end_vms(call: Call, leases: Iterable[Lease]) -> tuple[str, ...]:
    """Destroy the VMs of leases whose jobs are over; return the errors of VMs that may still exist."""
    errors = []
    for lease in leases:
        try:
            call.box.providers.of(lease).destroy(lease.uuid)
        except VmError as error:
            errors.append(f"{lease.uuid}: {error}")
        else:
            call.storage.leases.end(lease.id)
    return tuple(errors)


def _record_end(storage: Storage, lease: Lease, hold: Hold | None, *, serves: bool) -> None:
    """Record the end of a VM. A running service records the end of a hold itself, to free its capacity."""
    if hold is not None:
        if serves:
            return
        storage.holds.end(hold.id, HoldEnd.KILLED)
    storage.leases.end(lease.id)


def _build_and_job(lease: Lease, storage: Storage) -> tuple[Build | None, Job | None]:
    """Return the build and the job that a VM is leased to, as far as it has them."""
    job = None if lease.job_id is None else storage.jobs.get(lease.job_id)
    build_id = lease.build_id if job is None else job.build_id
    return (None if build_id is None else storage.builds.get(build_id)), job


def _state(lease: Lease, holds: Mapping[int, Hold]) -> str:
    return "held" if lease.id in holds else lease.state.value


def _leased(each: Lease, hold: Hold | None, storage: Storage, now: datetime) -> LeasedVm:
    build, job = _build_and_job(each, storage)
    of_render = None if build is None else "rendering"
    return LeasedVm(
        uuid=each.uuid,
        state=each.state.value if hold is None else "held",
        age_seconds=int((now - each.created_at).total_seconds()),
        organization=None if build is None else build.organization_slug,
        build=None if build is None else build.name,
        job=of_render if job is None else job.name,
        job_uuid=None if job is None else job.uuid,
        attempt=each.attempt,
        provider=each.provider,
        member=each.member,
        image=each.image,
        cpu=each.shape.cpu,
        memory_gb=each.shape.memory_gb,
        disk_gb=each.shape.disk_gb,
        network=each.network,
        cents=_cents(each, hold, storage, now),
        created_at=each.created_at,
        started_at=each.started_at,
        held_until=None if hold is None else hold.until,
    )


def _cents(lease: Lease, hold: Hold | None, storage: Storage, now: datetime) -> int:
    """Return the cost of a VM in cents until now: of its job, and then of its hold."""
    if hold is not None:
        return lease.amount_cents + _seconds(hold.started_at, now) * hold.micro_cents // MICRO_CENTS
    if lease.job_id is None or lease.started_at is None:
        return 0
    return cost_cents(storage.billing, lease.shape, _seconds(lease.started_at, lease.finished_at or now))


def _seconds(since: datetime, until: datetime) -> int:
    return max(0, int((until - since).total_seconds()))
