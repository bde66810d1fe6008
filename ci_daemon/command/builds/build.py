"""`ci-daemon build`: list, show, repeat and end builds, as the owner of the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ci_daemon.command.builds.build_logs import logs
from ci_daemon.command.support.command_classes import Group
from ci_daemon.command.support.lookup import find_build, find_pipeline
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.command.support.texts import note_option
from ci_daemon.command.support.timestamps import timestamp
from ci_daemon.host.lock import served_by
from storage import ApprovalNotAwaited, BuildState, SystemClock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from storage import Build, Job, Lease, Storage

__all__ = ["build"]

_COLUMNS = ("number", "state", "branch", "commit", "created_at", "took_seconds")
_JOB_COLUMNS = ("key", "name", "state", "took_seconds", "attempt", "reason")


@click.group(cls=Group)
def build() -> None:
    """Builds of all organizations."""


build.add_command(logs)


@build.command(name="list", reads=True)
@click.argument("name", metavar="ORG/PIPELINE")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="The maximum number to list."
)
@pass_session
def list_builds(session: Session, *, name: str, limit: int) -> None:
    """List the newest builds of a pipeline, newest first."""
    org, _, slug = name.partition("/")
    with session.storage_without_billing() as storage:
        page = storage.builds.page(find_pipeline(storage, org, slug).id, limit, None)
        documents = [_document(storage, each) for each in page.rows]
    session.table(documents, _COLUMNS, f"{name} has no build")


@build.command(reads=True)
@click.argument("name", metavar="ORG/PIPELINE/NUMBER")
@pass_session
def show(session: Session, *, name: str) -> None:
    """Show a build and its jobs, in the order of the plan."""
    with session.storage_without_billing() as storage:
        found = find_build(storage, name)
        jobs = [_job_document(each) for each in storage.jobs.of_build(found.id)]
        document = _document(storage, found)
    if session.json:
        session.answer({**document, "jobs": jobs}, "")
        return
    session.properties(document)
    click.echo()
    session.table([{**each, "reason": _reason(each)} for each in jobs], _JOB_COLUMNS, "it has no jobs")


@build.command()
@click.argument("name", metavar="ORG/PIPELINE/NUMBER")
@pass_session
def cancel(session: Session, *, name: str) -> None:
    """Cancel a build. A running service begins within a second, a stopped one when it starts."""
    with session.storage_without_billing() as storage:
        found = find_build(storage, name)
        if not storage.builds.request_cancel(found.id):
            raise Failure(f"build {name} is {found.state} already: nothing to cancel")
        document = _document(storage, find_build(storage, name))
    runs = served_by(session.state_dir) is not None
    when = (
        "is being canceled"
        if runs
        else f"will be canceled when the service runs: start it with {session.start_command}"
    )
    session.answer(document, f"build {name} {when}")


@build.command()
@click.argument("name", metavar="ORG/PIPELINE/NUMBER")
@pass_session
def approve(session: Session, *, name: str) -> None:
    """Let a build run that waits for an approval, because its pull request comes from a fork.

    Look at its commit first: the approval is of this commit alone. The build still gets no secrets. A running service
    begins within a second, a stopped one when it starts.
    """
    with session.storage_without_billing() as storage:
        try:
            approved = storage.approvals.approve(find_build(storage, name).id, session.operator)
        except ApprovalNotAwaited as error:
            raise Failure(f"build {name} cannot be approved: {error}") from None
        document = _document(storage, approved)
    runs = served_by(session.state_dir) is not None
    when = "runs now" if runs else f"runs when the service does: start it with {session.start_command}"
    session.answer(document, f"build {name} is approved, and {document['pending_reason'] or when}")


@build.command()
@click.argument("name", metavar="ORG/PIPELINE/NUMBER")
@pass_session
def rebuild(session: Session, *, name: str) -> None:
    """Build a build's source, pipeline and environment again, as a new build.

    A running service begins within a second, a stopped one when it starts. The source of a finished build is kept for a
    while ([retention]).
    """
    # Only here, because the imports for planning take longer than all others of these commands.
    from api import ApiError, add_rebuild  # noqa: PLC0415

    with session.storage() as storage:
        try:
            new = add_rebuild(storage, session.config().ir, find_build(storage, name), "cli")
        except ApiError as error:
            raise Failure(f"build {name} cannot be built again: {error.message}") from None
        document = _document(storage, new)
    runs = served_by(session.state_dir) is not None
    when = "" if runs else f" when the service runs: start it with {session.start_command}"
    session.answer(document, f"build {new.name} repeats {name}{when}")


@build.command()
@click.argument("name", metavar="ORG/PIPELINE/NUMBER")
@pass_session
def retry(session: Session, *, name: str) -> None:
    """Run again, in a finished build, what failed, timed out, was canceled or skipped.

    The jobs in whose disks these build run again too, if the cache does not have them. A running service begins within
    a second, a stopped one when it starts.
    """
    # Only here, because the imports for planning take longer than all others of these commands.
    from api import ApiError, retry_build  # noqa: PLC0415

    with session.storage() as storage:
        try:
            retried = retry_build(storage, find_build(storage, name))
        except ApiError as error:
            raise Failure(f"build {name} cannot be retried: {error.message}") from None
        document = _document(storage, retried)
    if retried.state.terminal:
        raise Failure(f"build {name} is {retried.state}: nothing to retry")
    runs = served_by(session.state_dir) is not None
    when = "now" if runs else f"when the service runs: start it with {session.start_command}"
    session.answer(document, f"build {name} runs again {when}")


@build.command(name="force-finish")
@click.argument("name", metavar="ORG/PIPELINE/NUMBER")
@click.option(
    "--state",
    required=True,
    type=click.Choice([BuildState.FAILED.value, BuildState.CANCELED.value]),
    help="The state in which it ends.",
)
@note_option("The reason, shown with the build and in the audit.", required=True)
@pass_session
def force_finish(session: Session, *, name: str, state: str, note: str) -> None:
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
        document = _document(storage, find_build(storage, name))
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
    from ci_daemon.providers import open_images, open_provider  # noqa: PLC0415

    config = session.config()
    provider = open_provider(session.state_dir, config, open_images(session.state_dir, config), SystemClock())
    errors = []
    for lease in leases:
        try:
            provider.destroy(lease.uuid)
        except VmError as error:
            errors.append(f"{lease.uuid}: {error}")
        else:
            storage.leases.end(lease.id)
    return "; ".join(errors)


def _document(storage: Storage, each: Build) -> dict[str, object]:
    return {
        "id": each.external_id,
        "build_id": each.uuid,
        "name": each.name,
        "number": each.number,
        "state": each.state.value,
        "branch": each.branch,
        "commit": each.commit,
        "cancel_requested": each.cancel_requested,
        "rebuild_of": each.rebuild_of,
        "pending_reason": _pending_reason(storage, each),
        "untrusted": each.untrusted,
        "approved_by": each.approved_by,
        "created_at": timestamp(each.created_at),
        "started_at": _timestamp(each.started_at),
        "finished_at": _timestamp(each.finished_at),
        "took_seconds": _seconds(each),
        "error_code": each.error_code,
        "error_message": each.error_message,
    }


def _pending_reason(storage: Storage, each: Build) -> str | None:
    """Return why none of a build's jobs may start yet, None if they may."""
    if each.waits_for is None:
        return None
    # Only here, because most builds do not wait.
    from actors import wait_reason  # noqa: PLC0415

    return wait_reason(storage, each)


def _job_document(each: Job) -> dict[str, object]:
    return {
        "id": each.uuid,
        "key": each.step_key,
        "name": each.name,
        "state": each.state.value,
        "attempt": each.attempt,
        "exit_code": each.exit_code,
        "error_code": each.error_code,
        "error_message": each.error_message,
        "started_at": _timestamp(each.started_at),
        "finished_at": _timestamp(each.finished_at),
        "took_seconds": _seconds(each),
    }


def _reason(job: Mapping[str, object]) -> str:
    """Return the reason of a job's failure, "" if there is none."""
    if job["error_code"] is not None:
        return f"{job['error_code']}: {job['error_message']}" if job["error_message"] else str(job["error_code"])
    return f"exit code {job['exit_code']}" if job["exit_code"] else ""


def _timestamp(at: datetime | None) -> str | None:
    return None if at is None else timestamp(at)


def _seconds(each: Build | Job) -> float | None:
    """Return the time from start to end, None if it has not started or ended."""
    if each.started_at is None or each.finished_at is None:
        return None
    return (each.finished_at - each.started_at).total_seconds()
