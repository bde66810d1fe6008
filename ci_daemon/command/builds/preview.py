"""`ci-daemon preview`: the ports that disks of passed jobs serve, on the box or of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from api.operations import previews
from ci_daemon.command.builds.shell import job_name
from ci_daemon.command.support.command_classes import Group, SharedCommand
from ci_daemon.command.support.names import BuildName, build_argument
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.terminal.text import printable
from storage import PreviewState, document_of

if TYPE_CHECKING:
    from api.doors import Door

_COLUMNS = ("step_key", "state", "until", "why", "url")


@click.group(cls=Group)
def preview() -> None:
    """Previews: the ports that disks of passed jobs serve, each at an address of its own."""


@preview.command(name="list", cls=SharedCommand, reads=True)
@build_argument
@pass_session
def list_previews(session: Session, *, name: BuildName) -> None:
    """List the previews of a build's jobs, also those that have ended, with the reason."""
    with session.previews_door() as door:
        documents = [document_of(each) for each in door.rows(previews.list_previews, name.names)]
    rows = [{**each, "why": _why(each)} for each in documents]
    session.table(rows, _COLUMNS, f"build {name} has no previews")


@preview.command(name="open", cls=SharedCommand, reads=True)
@click.argument("job", metavar="ORG/PIPELINE/NUMBER/STEP")
@pass_session
def open_preview(session: Session, *, job: str) -> None:
    """Open the preview of a job in a browser, and print its URL.

    At a server the URL lets you in, once and within a minute. On the box it is the preview's own, where members sign
    in.
    """
    with session.previews_door() as door:
        name, found = _preview_of(door, job)
        if found.state is PreviewState.GONE:
            raise Failure(f"the preview of {job} has ended: {printable(found.why_ended or '')}")
        url = found.url
        if not door.owners:
            url = door.perform(previews.open_preview, {**name.names, "preview": found.uuid}).url
    if url is None:
        raise Failure("this service has no address for previews: set previews.url")
    session.answer({"url": url}, url)
    if not session.json:
        import webbrowser  # noqa: PLC0415 - it takes a twentieth of the other commands' time

        webbrowser.open(url)


@preview.command(cls=SharedCommand)
@click.argument("job", metavar="ORG/PIPELINE/NUMBER/STEP")
@pass_session
def end(session: Session, *, job: str) -> None:
    """End the preview of a job, and with it its VM; its disk is kept no longer."""
    with session.previews_door() as door:
        name, found = _preview_of(door, job)
        door.perform(previews.end_preview, {**name.names, "preview": found.uuid})
    session.answer({"ended": found.uuid}, f"the preview of {job} has ended")


def _why(document: dict[str, Any]) -> str:
    """Return why a preview has ended or did not answer, without what its command has printed."""
    why: str = document["why_ended"] or document["failure"] or ""
    return why.partition("\n")[0]


def _preview_of(door: Door, job: str) -> tuple[BuildName, previews.PreviewRecord]:
    """Return the build in the name of a job, and the job's latest preview. Raises Failure."""
    name, step = job_name(job)
    rows = [each for each in door.rows(previews.list_previews, name.names) if each.step_key == step]
    if not rows:
        raise Failure(f"{job} has no preview: `ci-daemon preview list {name}` shows all of the build")
    return name, rows[-1]
