"""`ci-daemon build`: builds as the owner of the host sees them, and ends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from actors.vms import VmError
from ci_daemon.command.build_logs import logs
from ci_daemon.command.instants import on_the_wire
from ci_daemon.command.lookup import find_build, find_pipeline
from ci_daemon.command.session import Failure, Session, on_one_line, pass_session
from ci_daemon.command.style import Group
from ci_daemon.command.texts import note_option
from ci_daemon.lock import served_by
from ci_daemon.providers import open_images, open_provider
from storage import BuildState, SystemClock

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from storage import Build, Job, Lease, Storage

__all__ = ["build"]

_COLUMNS = ("number", "state", "branch", "commit", "created_at", "finished_at")
_JOB_COLUMNS = ("key", "state", "attempt", "exit_code", "error_code", "error_message")


@click.group(cls=Group)
def build() -> None:
    """Builds, whoever they belong to."""


build.add_command(logs)


@build.command(name="list", short_help="List a pipeline's builds.")
@click.argument("name", metavar="ORG/PIPELINE")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many at most.")
@pass_session
def list_builds(session: Session, *, name: str, limit: int) -> None:
    """List the newest builds of a pipeline, newest first."""
    org, _, slug = name.partition("/")
    with session.storage() as storage:
        page = storage.builds.page(find_pipeline(storage, org, slug).id, limit, None)
    session.table([_document(each) for each in page.rows], _COLUMNS, f"{name} has no build")


@build.command(short_help="Show a build and its jobs.")
@click.argument("name", metavar="ORG/PIPELINE/NUMBER")
@pass_session
def show(session: Session, *, name: str) -> None:
    """Show a build and its jobs, in the order in which they were planned."""
    with session.storage() as storage:
        found = find_build(storage, name)
        jobs = [_job_document(each) for each in storage.jobs.of_build(found.id)]
    document = _document(found)
    if session.json:
        session.answer({**document, "jobs": jobs}, "")
        return
    click.echo(
        "\n".join(f"{key:16} {on_one_line(value)}" for key, value in document.items() if value is not None) + "\n"
    )
    session.table(jobs, _JOB_COLUMNS, "it has no jobs")


@build.command(short_help="Cancel a build.")
@click.argument("name", metavar="ORG/PIPELINE/NUMBER")
@pass_session
def cancel(session: Session, *, name: str) -> None:
    """Have a build canceled. A service that runs begins with it within a second, another when it starts."""
    with session.storage() as storage:
        found = find_build(storage, name)
        if not storage.builds.request_cancel(found.id):
            raise Failure(f"build {name} is {found.state} already: nothing to cancel")
        found = find_build(storage, name)
    runs = served_by(session.state_dir) is not None
    when = "is being canceled" if runs else f"will be canceled when the service runs: start it with {session.starting}"
    session.answer(_document(found), f"build {name} {when}")


@build.command(name="force-finish", short_help="End a build by hand, as a last resort.")
@click.argument("name", metavar="ORG/PIPELINE/NUMBER")
@click.option(
    "--state",
    required=True,
    type=click.Choice([BuildState.FAILED.value, BuildState.CANCELED.value]),
    help="How it ends.",
)
@note_option("Why, for its readers and for the audit.", required=True)
@pass_session
def force_finish(session: Session, *, name: str, state: str, note: str) -> None:
    """End a build and all its jobs at once, billed up to now, and destroy their VMs.

    For a build that the service cannot end: `ci-daemon build cancel` is the usual way. The service may run or not. What
    was done, by whom and why stands in `ci-daemon audit`.
    """
    with session.storage() as storage:
        found = find_build(storage, name)
        held = storage.settlement.force_finish(found.id, BuildState(state), actor=session.operator, note=note)
        left = _destroy(session, storage, held)
        found = find_build(storage, name)
    if left:
        raise Failure(f"build {name} is {state}, but not all of its VMs could be destroyed ({left}): see `lease kill`")
    session.answer(_document(found), f"build {name} is {state}; VMs destroyed: {len(held)}")


def _destroy(session: Session, storage: Storage, leases: Sequence[Lease]) -> str:
    """Destroy the VMs of leases; return what kept some of them."""
    if not leases:
        return ""
    config = session.config()
    provider = open_provider(session.state_dir, config, open_images(session.state_dir, config), SystemClock())
    reasons = []
    for lease in leases:
        try:
            provider.destroy(lease.uuid)
        except VmError as error:
            reasons.append(f"{lease.uuid}: {error}")
        else:
            storage.leases.end(lease.id)
    return "; ".join(reasons)


def _document(each: Build) -> dict[str, object]:
    return {
        "id": each.external_id,
        "build_id": each.uuid,
        "name": each.name,
        "number": each.number,
        "state": each.state.value,
        "branch": each.branch,
        "commit": each.commit,
        "cancel_requested": each.cancel_requested,
        "created_at": on_the_wire(each.created_at),
        "started_at": _instant(each.started_at),
        "finished_at": _instant(each.finished_at),
        "error_code": each.error_code,
        "error_message": each.error_message,
    }


def _job_document(each: Job) -> dict[str, object]:
    return {
        "id": each.uuid,
        "key": each.step_key,
        "state": each.state.value,
        "attempt": each.attempt,
        "exit_code": each.exit_code,
        "error_code": each.error_code,
        "error_message": each.error_message,
        "started_at": _instant(each.started_at),
        "finished_at": _instant(each.finished_at),
    }


def _instant(at: datetime | None) -> str | None:
    return None if at is None else on_the_wire(at)
