"""`ci-daemon build force-finish`: end a build by hand, on the box alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from api.operations import BuildRecord
from ci_daemon.command.builds.build_documents import build_document
from ci_daemon.command.support.command_classes import Command
from ci_daemon.command.support.lookup import find_build
from ci_daemon.command.support.names import BuildName, build_argument
from ci_daemon.command.support.options import note_option
from ci_daemon.command.support.session import Failure, Session, pass_session
from storage import BuildState, SystemClock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage import Lease, Storage


@click.command(cls=Command, name="force-finish")
@build_argument
@click.option(
    "--state",
    required=True,
    type=click.Choice([BuildState.FAILED.value, BuildState.CANCELED.value]),
    help="The state in which it ends.",
)
@note_option("The reason, shown with the build and in the audit.", required=True)
@pass_session
def force_finish(session: Session, *, name: BuildName, state: str, note: str) -> None:
    """End a build and all its jobs at once, billed up to now, and destroy their VMs.

    Only for a build that the service cannot end: `ci-daemon build cancel` is the usual way. The service need not run.
    `ci-daemon audit` shows who did it and why.
    """
    with session.storage() as storage:
        found = find_build(storage, name)
        end = BuildState(state)
        leases = storage.force_finish.end(found.id, end, actor=session.operator, note=note, origin=session.origin)
        session.audited = True
        errors = _destroy(session, storage, leases)
        document = build_document(name.of_pipeline, BuildRecord.of(find_build(storage, name)))
    if errors:
        raise Failure(
            f"build {name} is {state}, but not all of its VMs could be destroyed ({errors}): see `lease kill`"
        )
    session.answer(document, f"build {name} is {state}; VMs destroyed: {len(leases)}")


def _destroy(session: Session, storage: Storage, leases: Sequence[Lease]) -> str:
    """Destroy the VMs of leases, and return the errors of VMs that could not be destroyed."""
    if not leases:
        return ""
    # Only here, because the imports for VMs take longer than all others of these commands.
    from actors.vms import VmError  # noqa: PLC0415
    from ci_daemon.providers import open_images, open_providers  # noqa: PLC0415

    config = session.config()
    providers = open_providers(session.state_dir, config, open_images(session.state_dir, config), SystemClock())
    errors = []
    for lease in leases:
        try:
            providers.of(lease).destroy(lease.uuid)
        except VmError as error:
            errors.append(f"{lease.uuid}: {error}")
        else:
            storage.leases.end(lease.id)
    return "; ".join(errors)
