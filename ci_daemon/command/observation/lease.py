"""`ci-daemon lease`: list and end the VMs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ci_daemon.command.support.command_classes import Group
from ci_daemon.command.support.names import short_id
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.host.lock import served_by
from ci_daemon.terminal.counts import counted
from storage import MICRO_CENTS, HoldEnd, SystemClock, cost_cents, timestamp

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from storage import Build, Hold, Job, Lease, Storage

_COLUMNS = ("id", "state", "age_seconds", "build", "job", "provider", "member", "shape", "cents", "image")
_MIN_ID = 4


@click.group(cls=Group)
def lease() -> None:
    """VMs of jobs, and parked VMs that wait for one."""


@lease.command(name="list", reads=True)
@pass_session
def list_leases(session: Session) -> None:
    """List the leases whose VM may exist, oldest first, with their cost until now.

    A narrow terminal shows no images, and providers only where one host has VMs of several. --json has all.
    """
    now = SystemClock().now()
    with session.storage() as storage:
        documents = [_document(each, storage, now) for each in storage.leases.live()]
    clustered = any(each["member"] for each in documents)
    columns = [column for column in _COLUMNS if clustered or column != "member"]
    mixed = not clustered and len({each["provider"] for each in documents}) > 1
    rows = documents if session.json else [_row(each) for each in documents]
    session.table(rows, columns, "no VM is leased", optional=("image",) if mixed else ("image", "provider"))


@lease.command()
@click.argument("lease_id", metavar="ID", required=False)
@click.option("--all", "all_vms", is_flag=True, help="Every VM, also those that no lease knows of.")
@pass_session
def kill(session: Session, *, lease_id: str | None, all_vms: bool) -> None:
    """End the VM of the lease ID, or every VM. The first letters of an ID are enough.

    A running job loses its VM and gets another attempt, or fails with vm_lost.
    """
    if (lease_id is None) != all_vms:
        raise click.UsageError("give either the ID of a lease or --all")
    # Imported only here: `lease list` needs no provider.
    from actors.vms import VmError  # noqa: PLC0415
    from ci_daemon.providers import open_images, open_providers  # noqa: PLC0415

    config = session.config()
    with session.storage() as storage:
        providers = open_providers(session.state_dir, config, open_images(session.state_dir, config), SystemClock())
        live = {each.uuid: each for each in storage.leases.live()}
        makers = {vm_id: providers.of(each) for vm_id, each in live.items()}
        away: list[VmError] = []
        if lease_id is None:
            for provider in providers:
                try:
                    makers.update((vm_id, provider) for vm_id in provider.list())
                except VmError as error:  # an engine that is away keeps no other provider's VMs alive
                    away.append(error)
        targets = sorted(makers) if lease_id is None else [_find(lease_id, live)]
        for vm_id in targets:
            _audit(session, storage, vm_id, live.get(vm_id), "--all" if all_vms else "")
            hold = storage.holds.of_lease(live[vm_id].id) if vm_id in live else None
            if hold is not None:  # before its VM ends, or the service would take that for a lost VM
                storage.holds.shorten(hold.id, HoldEnd.KILLED)
            if vm_id in live:  # likewise: so that the job's failure does not count as the service's fault
                storage.leases.kill(live[vm_id].id, session.operator)
            makers[vm_id].destroy(vm_id)
            if vm_id in live:
                _record_end(storage, live[vm_id], hold, running=served_by(session.state_dir) is not None)
    what = f"the VM {targets[0]}" if lease_id is not None else counted(len(targets), "VM")
    session.answer({"killed": targets}, f"ended {what}")
    if away:
        raise Failure(f"there may be more VMs: {away[0]}")


def _audit(session: Session, storage: Storage, vm_id: str, lease: Lease | None, note: str) -> None:
    """Write the audit entry of a VM that is about to end, with the build and the step that it has."""
    build, job = (None, None) if lease is None else _build_and_job(lease, storage)
    parts = (vm_id, build and build.name, job and job.step_key)
    storage.audit.write(
        session.operator,
        "lease kill",
        " ".join(part for part in parts if part),
        note,
        origin=session.origin,
        organization=None if build is None else build.organization_slug,
    )
    session.audited = True


def _find(prefix: str, live: Collection[str]) -> str:
    """Return the only id that begins with the given letters. Raises Failure."""
    found = [each for each in live if each.startswith(prefix)] if len(prefix) >= _MIN_ID else []
    if len(found) > 1:
        raise Failure(f"{len(found)} leases have ids that begin with {prefix}: give more letters")
    if not found:
        short = f"; give at least {_MIN_ID} letters" if len(prefix) < _MIN_ID else ""
        raise Failure(f"no live lease has the id {prefix}: `ci-daemon lease list` shows all{short}")
    return found[0]


def _record_end(storage: Storage, lease: Lease, hold: Hold | None, *, running: bool) -> None:
    """Record the end of a VM. A running service records the end of a hold itself, to free its capacity."""
    if hold is not None:
        if running:
            return
        storage.holds.end(hold.id, HoldEnd.KILLED)
    storage.leases.end(lease.id)


def _build_and_job(lease: Lease, storage: Storage) -> tuple[Build | None, Job | None]:
    """Return the build and the job that a VM is leased to, as far as it has them."""
    job = None if lease.job_id is None else storage.jobs.get(lease.job_id)
    build_id = lease.build_id if job is None else job.build_id
    return (None if build_id is None else storage.builds.get(build_id)), job


def _document(each: Lease, storage: Storage, now: datetime) -> dict[str, object]:
    build, job = _build_and_job(each, storage)
    hold = storage.holds.of_lease(each.id)
    return {
        "id": each.uuid,
        "state": each.state.value if hold is None else "held",
        "age_seconds": int((now - each.created_at).total_seconds()),
        "organization": build and build.organization_slug,
        "build": build and build.name,
        "job": "rendering" if job is None and build is not None else job and job.name,
        "job_id": job and job.uuid,
        "attempt": each.attempt,
        "provider": each.provider,
        "member": each.member,
        "image": each.image,
        "cpu": each.shape.cpu,
        "memory_gb": each.shape.memory_gb,
        "disk_gb": each.shape.disk_gb,
        "network": each.network,
        "cents": _cents(each, hold, storage, now),
        "created_at": timestamp(each.created_at),
        "started_at": each.started_at and timestamp(each.started_at),
        "held_until": hold and timestamp(hold.until),
    }


def _row(document: Mapping[str, Any]) -> dict[str, object]:
    return {
        **document,
        "id": short_id(document["id"]),
        "shape": f"{document['cpu']} CPU, {document['memory_gb']} GB",
    }


def _cents(lease: Lease, hold: Hold | None, storage: Storage, now: datetime) -> int:
    """Return the cost of a VM in cents until now: of its job, and then of its hold."""
    if hold is not None:
        return lease.amount_cents + _seconds(hold.started_at, now) * hold.micro_cents // MICRO_CENTS
    if lease.job_id is None or lease.started_at is None:
        return 0
    return cost_cents(storage.billing, lease.shape, _seconds(lease.started_at, lease.finished_at or now))


def _seconds(since: datetime, until: datetime) -> int:
    return max(0, int((until - since).total_seconds()))
