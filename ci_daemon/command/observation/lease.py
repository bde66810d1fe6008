"""`ci-daemon lease`: list and end the VMs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from api.operations import leases
from ci_daemon.command.support.command_classes import Group
from ci_daemon.command.support.names import short_id
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.terminal import counted
from storage import document_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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
    with session.priced_door() as door:
        documents = [document_of(each) for each in door.perform(leases.list_leases, {}, leases.LeaseSelection()).vms]
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
    away: tuple[str, ...] = ()
    with session.priced_door() as door:
        if lease_id is None:
            found = door.perform(leases.list_vms, {})
            targets, away = {each.uuid: each.provider for each in found.vms}, found.away
        else:
            listed = door.perform(leases.list_leases, {}, leases.LeaseSelection())
            live = {each.uuid: each.provider for each in listed.vms}
            vm_id = _find(lease_id, live)
            targets = {vm_id: live[vm_id]}
        ended = [
            door.perform(leases.kill_vm, {"id": vm_id}, leases.KillVmRequest(provider))
            for vm_id, provider in targets.items()
        ]
    errors = [each.error for each in ended if each.error is not None]
    gone = [vm_id for vm_id, each in zip(targets, ended, strict=True) if each.error is None]
    if gone or not errors:
        what = f"the VM {gone[0]}" if lease_id is not None else counted(len(gone), "VM")
        session.answer({"killed": gone}, f"ended {what}")
    if errors:
        raise Failure(f"not all VMs could be destroyed: {'; '.join(errors)}")
    if away:
        raise Failure(f"there may be more VMs: {away[0]}")


def _find(prefix: str, live: Iterable[str]) -> str:
    """Return the only id that begins with the given letters. Raises Failure."""
    found = [each for each in live if each.startswith(prefix)] if len(prefix) >= _MIN_ID else []
    if len(found) > 1:
        raise Failure(f"{len(found)} leases have ids that begin with {prefix}: give more letters")
    if not found:
        short = f"; give at least {_MIN_ID} letters" if len(prefix) < _MIN_ID else ""
        raise Failure(f"no live lease has the id {prefix}: `ci-daemon lease list` shows all{short}")
    return found[0]


def _row(document: Mapping[str, Any]) -> dict[str, object]:
    return {
        **document,
        "id": short_id(document["id"]),
        "shape": f"{document['cpu']} CPU, {document['memory_gb']} GB",
    }
