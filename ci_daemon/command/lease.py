"""`ci-daemon lease`: the VMs that jobs hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ci_daemon.command.instants import on_the_wire
from ci_daemon.command.session import Failure, Session, pass_session
from ci_daemon.command.style import Group
from ci_daemon.lock import served_by
from ci_daemon.providers import open_images, open_provider
from storage import HoldEnd, SystemClock

if TYPE_CHECKING:
    from storage import Lease, Storage

__all__ = ["lease"]

_COLUMNS = ("id", "state", "job", "image", "created_at")


@click.group(cls=Group)
def lease() -> None:
    """VMs that jobs hold, and warm ones that wait for a job."""


@lease.command(name="list", short_help="List the VMs that are there.")
@pass_session
def list_leases(session: Session) -> None:
    """List the leases whose VM may be there, oldest first."""
    with session.storage() as storage:
        documents = [_document(each, storage) for each in storage.leases.live()]
    session.table(documents, _COLUMNS, "no VM is leased")


@lease.command(short_help="End VMs at once.")
@click.argument("lease_id", metavar="ID", required=False)
@click.option("--all", "every", is_flag=True, help="Every VM, also those that no lease knows of.")
@pass_session
def kill(session: Session, *, lease_id: str | None, every: bool) -> None:
    """End the VM of the lease ID, or every VM.

    A running job loses its VM and takes another attempt, or fails with vm_lost.
    """
    if (lease_id is None) != every:
        raise click.UsageError("give either the ID of a lease or --all")
    config = session.config()
    with session.storage() as storage:
        provider = open_provider(session.state_dir, config, open_images(session.state_dir, config), SystemClock())
        live = {each.uuid: each for each in storage.leases.live()}
        if lease_id is not None and lease_id not in live:
            raise Failure(f"no live lease has the id {lease_id}: `ci-daemon lease list` shows those there are")
        targets = [lease_id] if lease_id is not None else sorted({*live, *provider.list()})
        for vm_id in targets:
            provider.destroy(vm_id)
            if vm_id in live:
                _end(storage, live[vm_id], served=served_by(session.state_dir) is not None)
    session.answer({"killed": targets}, f"ended {len(targets)} VMs")


def _end(storage: Storage, lease: Lease, *, served: bool) -> None:
    """Note that a VM is gone. The end of a hold is for a service that runs to note: it has to count the VM no more."""
    hold = storage.holds.of_lease(lease.id)
    if hold is not None:
        storage.holds.shorten(hold.id, HoldEnd.KILLED)
        if served:
            return
        storage.holds.end(hold.id, HoldEnd.KILLED)
    storage.leases.end(lease.id)


def _document(each: Lease, storage: Storage) -> dict[str, object]:
    job = None if each.job_id is None else storage.jobs.get(each.job_id)
    hold = storage.holds.of_lease(each.id)
    return {
        "id": each.uuid,
        "state": each.state.value if hold is None else "held",
        "job": None if job is None else job.name,
        "job_id": None if job is None else job.uuid,
        "attempt": each.attempt,
        "provider": each.provider,
        "image": each.image,
        "cpu": each.shape.cpu,
        "memory_gb": each.shape.memory_gb,
        "disk_gb": each.shape.disk_gb,
        "network": each.network,
        "created_at": on_the_wire(each.created_at),
        "started_at": each.started_at and on_the_wire(each.started_at),
        "held_until": hold and on_the_wire(hold.until),
    }
