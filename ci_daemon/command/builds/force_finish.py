"""`ci-daemon build force-finish`: end a build by hand, on the box alone."""

from __future__ import annotations

import click

from api.operations import builds
from ci_daemon.command.builds.build_documents import build_document
from ci_daemon.command.support.command_classes import Command
from ci_daemon.command.support.names import BuildName, build_argument
from ci_daemon.command.support.options import note_option
from ci_daemon.command.support.session import Failure, Session, pass_session
from storage import BuildState


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
    body = builds.ForceFinishRequest(BuildState(state), note)
    with session.priced_door() as door:
        ended = door.perform(builds.force_finish_build, name.names, body)
    if ended.errors:
        raise Failure(
            f"build {name} is {state}, but not all of its VMs could be destroyed ({'; '.join(ended.errors)}): see"
            " `lease kill`"
        )
    document = build_document(name.of_pipeline, ended.build)
    session.answer(document, f"build {name} is {state}; VMs destroyed: {ended.destroyed}")
