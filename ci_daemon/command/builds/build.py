"""`ci-daemon build`: list, show, repeat and end builds, on the box or of a server."""

from __future__ import annotations

from itertools import islice

import click

from api.operations import builds, jobs
from ci_daemon.command.builds.build_documents import build_document, job_document, reason
from ci_daemon.command.builds.build_logs import logs
from ci_daemon.command.builds.build_reports import coverage, list_annotations, outputs, summaries, tests
from ci_daemon.command.builds.build_watch import watch
from ci_daemon.command.builds.force_finish import force_finish
from ci_daemon.command.support.command_classes import Group, SharedCommand
from ci_daemon.command.support.names import BuildName, PipelineName, build_argument, pipeline_argument
from ci_daemon.command.support.options import limit_option
from ci_daemon.command.support.pipeline_files import inputs_option
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.terminal.text import printable
from storage import document_of

_COLUMNS = ("number", "state", "branch", "commit", "author", "event", "created_at", "took_seconds", "message")
_OPTIONAL = ("event", "author", "took_seconds")
_CULPRIT_COLUMNS = ("number", "commit", "state", "passed")
_JOB_COLUMNS = ("key", "name", "state", "took_seconds", "attempt", "reason")


@click.group(cls=Group)
def build() -> None:
    """Builds of pipelines."""


build.add_command(logs)
build.add_command(watch)
build.add_command(force_finish)
build.add_command(outputs)
build.add_command(list_annotations)
build.add_command(summaries)
build.add_command(tests)
build.add_command(coverage)


@build.command(name="list", cls=SharedCommand, reads=True)
@pipeline_argument
@limit_option(1000, default=20)
@pass_session
def list_builds(session: Session, *, name: PipelineName, limit: int) -> None:
    """List the newest builds of a pipeline, newest first."""
    with session.door() as door:
        newest = islice(door.rows(builds.list_builds, name.names), limit)
        documents = [build_document(name, each) for each in newest]
    session.remember(f"build/{each['name']}" for each in documents)
    rows: list[dict[str, object]]
    if session.json:
        pages = session.pages_url()
        rows = [{**each, "url": BuildName.parse(str(each["name"])).page(pages)} for each in documents]
    else:
        rows = [{**each, "message": str(each["message"] or "").partition("\n")[0]} for each in documents]
    session.table(rows, _COLUMNS, f"{name} has no build", optional=_OPTIONAL)


@build.command(cls=SharedCommand, reads=True)
@build_argument
@pass_session
def show(session: Session, *, name: BuildName) -> None:
    """Show a build and its jobs, in the order of the plan."""
    with session.door() as door:
        document = build_document(name.of_pipeline, door.perform(builds.get_build, name.names))
        steps = [job_document(each) for each in door.rows(jobs.list_jobs, name.names)]
    document["url"] = name.page(session.pages_url())
    session.remember(f"step/{name}/{each['key']}" for each in steps)
    if session.json:
        session.answer({**document, "jobs": steps}, "")
        return
    warnings, inputs = document.pop("warnings"), document.pop("inputs")
    if isinstance(inputs, dict):
        document |= {f"input {printable(name)}": value for name, value in inputs.items()}
    session.properties(document)
    for warning in warnings if isinstance(warnings, list) else ():
        click.echo(f"warning: {printable(str(warning))}")
    click.echo()
    keys = {each["id"]: each["key"] for each in steps}
    rows = [{**each, "reason": reason(each), "generated_by": keys.get(each["generated_by"])} for each in steps]
    generated = ("generated_by",) if any(row["generated_by"] for row in rows) else ()
    session.table(rows, (*_JOB_COLUMNS, *generated), "it has no jobs")


@build.command(cls=SharedCommand)
@build_argument
@click.option("--stop", is_flag=True, help="Stop the search, and cancel its builds.")
@pass_session
def culprit(session: Session, *, name: BuildName, stop: bool) -> None:
    """Show the commit that broke a build of the default branch, or how the search for it goes."""
    from api.operations import culprits  # noqa: PLC0415 - no other command of builds needs them

    with session.door() as door:
        performed = culprits.stop_culprit_search if stop else culprits.get_culprit
        found = document_of(door.perform(performed, name.names))
    if session.json:
        session.answer(found, "")
        return
    builds = found.pop("builds")
    session.properties(found)
    click.echo()
    session.table(builds if isinstance(builds, list) else [], _CULPRIT_COLUMNS, "no commit was built yet")


@build.command(name="open", cls=SharedCommand, reads=True)
@build_argument
@pass_session
def open_build(session: Session, *, name: BuildName) -> None:
    """Open the page of a build in a browser, and print its URL."""
    with session.door() as door:
        door.perform(builds.get_build, name.names)
    url = name.page(session.pages_url())
    session.answer({"url": url}, url)
    if not session.json:
        import webbrowser  # noqa: PLC0415 - it takes a twentieth of the other commands' time

        webbrowser.open(url)


@build.command(cls=SharedCommand)
@build_argument
@pass_session
def cancel(session: Session, *, name: BuildName) -> None:
    """Cancel a build. A running service begins within a second, a stopped one when it starts."""
    with session.door() as door:
        before = door.perform(builds.get_build, name.names)
        if before.state.terminal:  # the API answers for a finished build, too
            raise Failure(f"build {name} is {before.state} already: nothing to cancel")
        canceled = door.perform(builds.cancel_build, name.names)
    when = _when(session, "is being canceled", "will be canceled when the service runs")
    session.answer(build_document(name.of_pipeline, canceled), f"build {name} {when}")


@build.command(cls=SharedCommand)
@build_argument
@pass_session
def approve(session: Session, *, name: BuildName) -> None:
    """Let a build run that waits for an approval, because its pull request comes from a fork.

    Look at its commit first: the approval is of this commit alone. The build still gets no secrets. A running service
    begins within a second, a stopped one when it starts.
    """
    with session.door() as door:
        document = build_document(name.of_pipeline, door.perform(builds.approve_build, name.names))
    when = _when(session, "runs now", "runs when the service does")
    session.answer(document, f"build {name} is approved, and {document['pending_reason'] or when}")


@build.command(cls=SharedCommand)
@build_argument
@pass_session
def rebuild(session: Session, *, name: BuildName) -> None:
    """Build a build's source, pipeline and environment again, as a new build.

    A running service begins within a second, a stopped one when it starts. The source of a finished build is kept for a
    while ([retention]).
    """
    with session.building_door() as door:
        new = door.perform(builds.rebuild_build, name.names, {"source": "cli"})
    when = _when(session, "", " when the service runs")
    document = build_document(name.of_pipeline, new)
    session.answer(document, f"build {document['name']} repeats {name}{when}")


@build.command(cls=SharedCommand)
@pipeline_argument
@click.option(
    "--ref", metavar="NAME", help="A branch, a tag, a commit, or a pull request as #7; by default the default branch."
)
@inputs_option
@click.option("--message", metavar="TEXT", help="By default the commit's.")
@click.option("--debug", is_flag=True, help="Hold the VM of a failed job for a while, for `ci-daemon debug`.")
@pass_session
def start(
    session: Session, *, name: PipelineName, ref: str | None, inputs: dict[str, str], message: str | None, debug: bool
) -> None:
    """Build a branch, tag, commit or pull request of the pipeline's connected repository, by its name.

    The service fetches it as for a push. --input gives what the pipeline declares in `on.manual.inputs`; what is not
    given has its default.
    """
    given = {"ref": ref, "message": message, "inputs": inputs, "debug": debug}
    body = {"source": "cli", **{key: value for key, value in given.items() if value}}
    with session.building_door() as door:
        new = door.perform(builds.start_build, name.names, body)
    when = _when(session, "began", "begins when the service runs")
    document = build_document(name, new)
    session.remember([f"build/{document['name']}"])
    follow = f"`ci-daemon build watch {document['name']}` follows it"
    session.answer(document, f"build {document['name']} of {new.branch} {when}; {follow}")


@build.command(cls=SharedCommand)
@build_argument
@pass_session
def retry(session: Session, *, name: BuildName) -> None:
    """Run again, in a finished build, what failed, timed out, was canceled or skipped.

    The jobs in whose disks these build run again too, if the cache does not have them. A running service begins within
    a second, a stopped one when it starts.
    """
    with session.building_door() as door:
        retried = door.perform(builds.retry_build, name.names)
    when = _when(session, "now", "when the service runs")
    if retried.state.terminal:
        raise Failure(f"build {name} is {retried.state}: nothing to retry")
    session.answer(build_document(name.of_pipeline, retried), f"build {name} runs again {when}")


def _when(session: Session, running: str, stopped: str) -> str:
    """Return the words for a running service, or those for a stopped one, with the way to start it."""
    start = session.service_start()
    return running if start is None else f"{stopped}: start it with {start}"
