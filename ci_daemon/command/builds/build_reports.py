"""`ci-daemon build outputs`, `annotations`, `summaries`, `tests` and `coverage`, all that jobs report."""

from __future__ import annotations

from itertools import islice

import click

from api.operations import jobs
from ci_daemon.command.support.command_classes import SharedCommand
from ci_daemon.command.support.names import BuildName, build_argument
from ci_daemon.command.support.options import limit_option
from ci_daemon.command.support.session import Session, pass_session
from ci_daemon.terminal.text import printable
from storage import AnnotationLevel, document_of

_job_option = click.option("--job", "step", metavar="STEP", help="Only those of the job with this key.")


@click.command(cls=SharedCommand, reads=True)
@build_argument
@_job_option
@pass_session
def outputs(session: Session, *, name: BuildName, step: str | None) -> None:
    """List the variables that the jobs of a build give to those that need them."""
    documents: list[dict[str, object]] = []
    with session.door() as door:
        for job in door.rows(jobs.list_jobs, name.names):
            if step in {None, job.step_key}:
                found = door.perform(jobs.get_job_outputs, {**name.names, "job_id": job.uuid})
                given = found.variables.items()
                documents += [{"job": job.step_key, "name": key, "value": value} for key, value in given]
    session.table(documents, ("job", "name", "value"), f"build {name} has no outputs")


@click.command(name="annotations", cls=SharedCommand, reads=True)
@build_argument
@_job_option
@click.option("--level", type=click.Choice(list(map(str, AnnotationLevel))), help="Only those of this level.")
@click.option("--path", metavar="FILE", help="Only those of this file.")
@limit_option(10_000, default=100)
@pass_session
def list_annotations(
    session: Session, *, name: BuildName, step: str | None, level: str | None, path: str | None, limit: int
) -> None:
    """List the remarks of a build's jobs on lines in files."""
    asked = {"step": step, "level": level, "path": path}
    query = {key: value for key, value in asked.items() if value}
    with session.door() as door:
        found = islice(door.rows(jobs.list_build_annotations, name.names, query=query), limit)
        documents = [{"place": _place(each), **document_of(each)} for each in found]
    columns = ("level", "place", "message", "job_name")
    session.table(documents, columns, f"build {name} has no {'such ' if query else ''}annotations")


def _place(said: jobs.AnnotationRecord) -> str:
    return ":".join(str(each) for each in (said.path, said.line, said.column) if each is not None)


@click.command(cls=SharedCommand, reads=True)
@build_argument
@pass_session
def summaries(session: Session, *, name: BuildName) -> None:
    """Print the summaries of a build's jobs, in Markdown."""
    with session.door() as door:
        documents = [document_of(each) for each in door.rows(jobs.list_build_summaries, name.names)]
    lines = "\n\n".join(f"# {each['job_name']}\n\n{each['text']}" for each in documents).splitlines()
    session.answer(documents, "\n".join(map(printable, lines)) or f"build {name} has no summaries")


@click.command(cls=SharedCommand, reads=True)
@build_argument
@_job_option
@click.option("--outcome", type=click.Choice(["failed", "skipped", "passed"]), help="Only those with this outcome.")
@click.option("--name", "text", metavar="TEXT", help="Only those whose suite or name has this text in it.")
@limit_option(50_000, default=100)
@pass_session
def tests(
    session: Session, *, name: BuildName, step: str | None, outcome: str | None, text: str | None, limit: int
) -> None:
    """List the tests of a build, from the reports of JUnit among its artifacts."""
    from api.operations import tests as operations  # noqa: PLC0415 - few commands read reports

    asked = {"step": step, "outcome": outcome, "name": text}
    query = {key: value for key, value in asked.items() if value}
    with session.door() as door:
        found = islice(door.rows(operations.list_build_tests, name.names, query=query), limit)
        documents = [document_of(each) for each in found]
    columns = ("outcome", "suite", "name", "seconds", "step_key")
    session.table(documents, columns, f"build {name} has no {'such ' if query else ''}tests")


@click.command(cls=SharedCommand, reads=True)
@build_argument
@click.option("--files", is_flag=True, help="Of each file, those with most changed lines that did not run first.")
@pass_session
def coverage(session: Session, *, name: BuildName, files: bool) -> None:
    """Show the coverage of a build, and its change against the target branch.

    It comes from the reports among its artifacts.
    """
    from api.operations import coverage as operations  # noqa: PLC0415 - few commands read reports

    with session.door() as door:
        if files:
            documents = [document_of(each) for each in door.rows(operations.list_build_coverage_files, name.names)]
            columns = ("path", "percent", "change", "lines", "changed_uncovered")
            session.table(documents, columns, f"build {name} has no coverage")
            return
        document = document_of(door.perform(operations.get_build_coverage, name.names))
    if session.json or document["percent"] is None:
        session.answer(document, f"build {name} has no coverage")
    else:
        session.properties(document)
