"""`ci-daemon job`: the jobs of a build, on the box or of a server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from api.operations import disk_files, environments, jobs
from ci_daemon.command.builds.build_documents import build_document, job_document, reason
from ci_daemon.command.support.body_options import body_option, given
from ci_daemon.command.support.command_classes import Group, SharedCommand
from ci_daemon.command.support.names import BuildName, build_argument
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.terminal.text import printable
from storage import document_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from api.doors import Door
    from api.operations import JobRecord

_FILE_COLUMNS = ("name", "kind", "size")
_COLUMNS = ("key", "name", "state", "took_seconds", "attempt", "reason")


@click.group(cls=Group)
def job() -> None:
    """Jobs: the steps of a build."""


@job.command(name="list", cls=SharedCommand, reads=True)
@build_argument
@pass_session
def list_jobs(session: Session, *, name: BuildName) -> None:
    """List the jobs of a build, in the order of the plan."""
    with session.door() as door:
        documents = [job_document(each) for each in door.rows(jobs.list_jobs, name.names)]
    session.remember(f"step/{name}/{each['key']}" for each in documents)
    session.table([{**each, "reason": reason(each)} for each in documents], _COLUMNS, f"build {name} has no jobs")


@job.command(cls=SharedCommand, reads=True)
@build_argument
@click.argument("step")
@pass_session
def show(session: Session, *, name: BuildName, step: str) -> None:
    """Show the job with the key STEP of a build."""
    with session.door() as door:
        found = _job_of(door, name, step)
    document = {**job_document(found), "pending_reason": found.pending_reason}
    if session.json:
        session.answer(document, "")
    else:
        session.properties(document)


@job.command(cls=SharedCommand)
@build_argument
@click.argument("step")
@pass_session
def retry(session: Session, *, name: BuildName, step: str) -> None:
    """Run the job with the key STEP of a finished build again, such as one cell of a matrix.

    What was skipped or canceled after it runs too; other jobs that failed do not.
    """
    with session.building_door() as door:
        found = _job_of(door, name, step)
        retried = door.perform(jobs.retry_job, {**name.names, "job_id": found.uuid})
    start = session.service_start()
    when = "now" if start is None else f"when the service runs: start it with {start}"
    session.answer(build_document(name.of_pipeline, retried), f"{step} of build {name} runs again {when}")


@job.command(cls=SharedCommand)
@build_argument
@click.argument("step")
@body_option(environments.AnswerGateRequest, "reason")
@pass_session
def approve(session: Session, /, *, name: BuildName, step: str, **terms: object) -> None:
    """Let the job with the key STEP of a build run, which waits at the gate of its environment.

    The approval is of this job of this build. A running service begins within a second.
    """
    with session.door() as door:
        found = _job_of(door, name, step)
        approved = door.perform(environments.approve_job, {**name.names, "job_id": found.uuid}, given(terms))
    session.answer(job_document(approved), f"{step} of build {name} may deploy to {approved.environment}")


@job.command(cls=SharedCommand)
@build_argument
@click.argument("step")
@body_option(environments.AnswerGateRequest, "reason")
@pass_session
def reject(session: Session, /, *, name: BuildName, step: str, **terms: object) -> None:
    """Fail the job with the key STEP of a build, which waits at the gate of its environment."""
    with session.door() as door:
        found = _job_of(door, name, step)
        rejected = door.perform(environments.reject_job, {**name.names, "job_id": found.uuid}, given(terms))
    session.answer(job_document(rejected), f"{step} of build {name} does not deploy to {rejected.environment}")


_before = click.option("--before", is_flag=True, help="Look at the disk before the job's command.")


@job.command(cls=SharedCommand)
@build_argument
@click.argument("step")
@click.argument("path", default=".")
@_before
@pass_session
def files(session: Session, *, name: BuildName, step: str, path: str, before: bool) -> None:
    """List a folder of the disk that the job with the key STEP has left, by default its workspace.

    A PATH that is not absolute is one in the workspace. The disks of failed jobs are kept for some days. A VM with a
    fork of the disk reads it, at the price of the job's.
    """
    with session.forking_door() as door:
        names = {**name.names, "job_id": _job_of(door, name, step).uuid}
        body = {"path": path, "before": before}
        folder = door.perform(disk_files.list_disk_files, names, body)
    session.table([document_of(each) for each in folder.entries], _FILE_COLUMNS, f"{path} is empty")
    if folder.cut and not session.json:
        click.echo("There are more: `ci-daemon shell` shows all.", err=True)


@job.command(cls=SharedCommand)
@build_argument
@click.argument("step")
@click.argument("path")
@_before
@click.option("--to", "target", metavar="FILE", help="The file to write; - is the output. Nothing is overwritten.")
@pass_session
def get(session: Session, *, name: BuildName, step: str, path: str, before: bool, target: str | None) -> None:
    """Get a file of the disk that the job with the key STEP has left, or a folder as a tar of its files.

    PATH and --before are those of `ci-daemon job files`. At most 256 MiB and 10,000 files are taken at once. The job's
    secrets are hidden.
    """
    with session.forking_door() as door:
        names = {**name.names, "job_id": _job_of(door, name, step).uuid}
        body = {"path": path, "before": before}
        with door.take(disk_files.take_disk_file, names, body) as (called, chunks):
            if target == "-":
                for chunk in chunks:
                    sys.stdout.buffer.write(chunk)
                return
            file = Path(target or called)
            size = _write_new(file, chunks)
    session.answer({"path": str(file), "size": size}, printable(file))


def _write_new(file: Path, chunks: Iterator[bytes]) -> int:
    """Write a file that is not there yet, whole or not at all. Raises Failure."""
    try:
        with file.open("xb") as written:
            try:
                return sum(map(written.write, chunks))
            except BaseException:
                file.unlink()
                raise
    except FileExistsError:
        raise Failure(f"{file} is there already: give another one by --to") from None


def _job_of(door: Door, name: BuildName, step: str) -> JobRecord:
    every: Iterator[JobRecord] = door.rows(jobs.list_jobs, name.names)
    found = next((each for each in every if each.step_key == step), None)
    if found is None:
        raise Failure(f"build {name} has no step {step}: `ci-daemon job list {name}` shows all")
    return found
