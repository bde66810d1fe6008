"""`ci-daemon shell`: a fork of the disk that a job has left."""

from __future__ import annotations

from contextlib import closing
from typing import IO, TYPE_CHECKING, Any

import click

from api.operations import debugging, jobs, runs
from ci_daemon.command.support.body_options import body_option, given
from ci_daemon.command.support.command_classes import SharedCommand
from ci_daemon.command.support.names import BuildName
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.terminal.raw import has_terminal
from storage import document_of

if TYPE_CHECKING:
    from api.doors import Door
    from ci_daemon.remote.connection import Connection

_MARGIN_SECONDS = 120.0
_MOST_PATCH_BYTES = 1 << 20


@click.command(cls=SharedCommand)
@click.argument("job", metavar="ORG/PIPELINE/NUMBER/STEP")
@body_option(runs.RunOnForkRequest, "before")
@body_option(runs.RunOnForkRequest, "command")
@click.option("--patch", type=click.File(), help="A file with a unified diff of the workspace, applied before it.")
@body_option(runs.RunOnForkRequest, "timeout_seconds", "--timeout")
@pass_session
def shell(session: Session, /, *, job: str, patch: IO[str] | None, **options: object) -> int:
    """Open a shell on a fork of the disk that a job has left, or run a command there.

    The disks of failed jobs are kept for some days. Each shell and each command has a VM and a fork of its own, which
    ends with it, so that nothing that is recorded changes. With --command or --patch a command runs, by default that
    of the job, and its exit code is this one's. The job's variables are set, its secrets are not.

    A shell at a server goes on after a lost connection, and ends when nobody types for a while.
    """
    name, step = job_name(job)
    changes = None if patch is None else patch.read(_MOST_PATCH_BYTES + 1)
    body = given(options) | ({} if changes is None else {"patch": changes})
    if "command" in body or "patch" in body:
        return _run(session, name, step, body)
    if not has_terminal():
        raise Failure("a shell needs a terminal: give --command, as in `--command 'cat /etc/os-release'`")
    before = bool(body.get("before"))
    if session.server() is not None:
        return _shell_at_server(session, name, step, before=before)
    with session.priced_door() as door:
        names, asked = {**name.names, "step": step}, debugging.OpenForkRequest(before=before)
        with closing(door.perform(debugging.open_fork_shell, names, asked).shell) as opened:
            return opened.run(())


def _shell_at_server(session: Session, name: BuildName, step: str, *, before: bool) -> int:
    from ci_daemon.remote.terminal import RemoteTerminal, TerminalEnded  # noqa: PLC0415 - few commands have one

    with (
        session.connection() as server,
        closing(RemoteTerminal(server, names_of_job(server, name, step), before=before)) as terminal,
    ):
        try:
            return terminal.run()
        except TerminalEnded as error:
            raise Failure(str(error)) from None


def _run(session: Session, name: BuildName, step: str, body: dict[str, Any]) -> int:
    if session.server() is None:
        with session.priced_door() as door:
            done = door.perform(runs.run_on_fork, names_of_job(door, name, step), runs.RunOnForkRequest(**body))
    else:
        with session.connection() as server:
            done = _run_at(server, names_of_job(server, name, step), body)
    session.answer(document_of(done), done.output.removesuffix("\n"))
    if done.timed_out:
        raise Failure("the command was ended: its time was up")
    return done.exit_code


def _run_at(server: Connection, names: dict[str, str], body: dict[str, Any]) -> runs.RunRecord:
    patience = body.get("timeout_seconds", runs.USUAL_SECONDS) + _MARGIN_SECONDS
    return server.perform(runs.run_on_fork, names, body, seconds=patience)


def names_of_job(door: Door, name: BuildName, step: str) -> dict[str, str]:
    """Return the names of a job in the paths of operations. Raises Failure."""
    found = next((each for each in door.rows(jobs.list_jobs, name.names) if each.step_key == step), None)
    if found is None:
        raise Failure(f"build {name} has no step {step}: `ci-daemon job list {name}` shows all")
    return {**name.names, "job_id": found.uuid}


def job_name(text: str) -> tuple[BuildName, str]:
    """Return the build and the step in ORG/PIPELINE/NUMBER/STEP. Raises Failure."""
    *build, step = text.split("/", 3)
    if len(build) != len(("ORG", "PIPELINE", "NUMBER")) or not step:
        raise Failure(f'"{text}" is not the name of a job: write ORG/PIPELINE/NUMBER/STEP, as in acme/web/12/test')
    return BuildName.parse("/".join(build)), step
