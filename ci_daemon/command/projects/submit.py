"""`ci-daemon submit`: post a tree and its pipeline, follow the build, exit with its result."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from api import pages_url
from api.operations import builds
from ci_daemon import submit as submission
from ci_daemon.command.support.command_classes import CallerCommand
from ci_daemon.command.support.exit_codes import ExitCode
from ci_daemon.command.support.names import BuildName
from ci_daemon.command.support.pipeline_files import EXIT_CODES, check_slug, inputs_option, ir_option, pipeline_ir
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.remote.destination import is_http_url
from ci_daemon.remote.errors import RequestFailed
from ci_daemon.terminal import counted
from ci_daemon.terminal.progress import transfer_progress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from api.operations import BuildRecord
    from ci_daemon.submit import Archive, Client, GitRevision, Screen, Summary

_UNKNOWN_PIPELINE = "unknown pipeline"
"""The service's message if DIR declares several pipelines, and none with the requested slug."""
_REJECTED = "build_plan_rejected"
_TAKEN = "pipeline_slug_taken"


def _valid_url(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and not is_http_url(value):
        raise click.BadParameter(f"{value} is not a URL: give one such as https://ci.example.org")
    return value and value.rstrip("/")


def _valid_token(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    token = (value or "").strip()
    if not token.isascii() or not token.isprintable():
        raise click.BadParameter("this is not an API key: give the token that `ci-daemon user add` printed")
    return token or None


@click.command(cls=CallerCommand, reads=True)
@click.argument("tree", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--pipeline",
    metavar="SLUG",
    help="By default the only one that DIR declares. Created if it does not exist.",
)
@ir_option
@click.option("--org", metavar="SLUG", help="The organization; by default your personal one.")
@click.option("--branch", help="By default the current branch of git.")
@click.option("--commit", metavar="SHA", help="By default the current commit of git.")
@click.option("--message", metavar="TEXT", help="By default the first line of that commit's message.")
@inputs_option
@click.option("--git", "with_git", is_flag=True, help="Pack a shallow .git too, as of a push.")
@click.option("--debug", is_flag=True, help="Hold the VM of a failed job for a while, for `ci-daemon debug`.")
@click.option("--cancel-on-interrupt", is_flag=True, help="Cancel the build on Ctrl-C; by default it continues.")
@click.option(
    "--url",
    envvar="CI_DAEMON_URL",
    show_envvar=True,
    callback=_valid_url,
    help="The URL of the service; by default that of the current context, or else of this host.",
)
@click.option(
    "--token",
    envvar="CI_DAEMON_TOKEN",
    show_envvar=True,
    callback=_valid_token,
    help="Your API key, if you are not signed in; the variable keeps it out of the process list.",
)
@pass_session
def submit(
    session: Session,
    *,
    tree: Path,
    pipeline: str | None,
    ir_file: Path | None,
    org: str | None,
    branch: str | None,
    commit: str | None,
    message: str | None,
    inputs: dict[str, str],
    with_git: bool,
    debug: bool,
    cancel_on_interrupt: bool,
    url: str | None,
    token: str | None,
) -> int:
    """Run a pipeline over the files of DIR and follow it to its end.

    The service renders the pipeline from DIR's .hm/*.py. If these declare several, --pipeline chooses one.

    DIR is packed without .git and without what git ignores; a file that git tracks is never ignored. The log of
    every job is shown as it is written. The exit code is 0 if the build passed, 1 if it failed, 3 if it was canceled.

    With --git, jobs find the last commits, their tags and the default branch of origin, so that git describe and git
    diff origin/main... work. What is not committed is a change there. Hooks, settings and passwords are not packed.

    The address of the build's page comes first. Ctrl-C leaves the build running and prints how to cancel it. With
    --json the log goes to stderr, and stdout gets one document at the end.
    """
    server = session.signed_in(url, token)
    screen = submission.Screen(sys.stderr if session.json else sys.stdout)
    is_default = pipeline is None
    pipeline = pipeline or (submission.folder_slug(tree) if ir_file else submission.default_slug(tree))
    check_slug(pipeline)
    revision, ir = submission.git_revision(tree), pipeline_ir(tree, ir_file)
    archive = _pack_with_git(tree) if with_git else submission.pack(tree)
    client = submission.Client(server.url, server.token)
    organization = org or client.personal_organization()
    body = {
        "branch": branch or revision.branch,
        "commit": commit or revision.commit,
        "message": message or revision.message,
        "source": "cli",
        "pipeline_ir": ir,
        "debug": debug,
        **({"inputs": inputs} if inputs else {}),
    }
    upload = _Upload(archive)
    try:
        build = _create_build(client, organization, pipeline, revision, body, upload, screen)
    except RequestFailed as error:
        if is_default and _UNKNOWN_PIPELINE in str(error):
            raise Failure(f"{error}: choose one with --pipeline") from error
        raise
    except KeyboardInterrupt:
        screen.print(upload.when_interrupted(f"{organization}/{pipeline}"))
        return ExitCode.INTERRUPTED
    name = BuildName(organization, pipeline, build.number)
    page = name.page(pages_url(server.url))
    try:
        screen.print(f"build #{build.number} of {organization}/{pipeline}: {counted(archive.files, 'file')} packed")
        screen.print(page)
        summary = _follow(client, name, screen)
    except KeyboardInterrupt:
        if cancel_on_interrupt:
            client.connection.perform(builds.cancel_build, name.names)
            screen.print(f"build #{build.number} is canceled")
        else:
            screen.print(f"build #{build.number} continues; `ci-daemon build cancel {name}` cancels it")
        return ExitCode.INTERRUPTED
    # If following fails, a thread may still wait for a log. Only here does nothing use the client any more.
    client.close()
    session.remember([f"step/{name}/{row.job.step_key}" for row in summary.rows] + [*name.known_lines])
    if session.json:
        click.echo(json.dumps({"url": page, **summary.as_json()}, indent=2))
    else:
        screen.summarize(summary)
        screen.print(_next_step(name, summary))
    return EXIT_CODES[summary.build.state]


@dataclass
class _Upload:
    """An archive on its way to the service."""

    archive: Archive
    complete: bool = False

    def send(self, client: Client, organization: str, pipeline: str, body: Mapping[str, object]) -> BuildRecord:
        """Post a build with the archive, with a bar on a terminal. Raises RequestFailed."""
        size = len(self.archive.data)
        with transfer_progress(f"sending {counted(self.archive.files, 'file')}", size) as progress:

            def note(share: float) -> None:
                self.complete = share == 1
                progress(round(share * size))

            return client.create_build(organization, pipeline, body, self.archive, note)

    def when_interrupted(self, pipeline: str) -> str:
        """Return what becomes of the build if Ctrl-C comes before its number."""
        if not self.complete:
            return "interrupted before all files were sent: nothing is built"
        return f"the service has the files and may build them yet: `ci-daemon build list {pipeline}` shows it"


def _pack_with_git(tree: Path) -> Archive:
    with submission.git_folder(tree) as history:
        return submission.pack(tree, history=history)


def _follow(client: Client, name: BuildName, screen: Screen) -> Summary:
    reader = submission.ServedBuild(client.connection, name.names)
    for event in submission.Follower(reader).events():
        screen.show(event)
    build = reader.build()
    debits = client.debits_since(name.org, build.created_at)
    return submission.summarize(build, reader.jobs(), name.pipeline, debits)


def _create_build(
    client: Client,
    organization: str,
    pipeline: str,
    revision: GitRevision,
    body: Mapping[str, object],
    upload: _Upload,
    screen: Screen,
) -> BuildRecord:
    """Post a build, and create its pipeline if it does not exist. Raises RequestFailed."""
    if client.has_pipeline(organization, pipeline):
        return upload.send(client, organization, pipeline, body)
    try:
        client.create_pipeline(organization, pipeline, repository=revision.repository, default_branch=revision.branch)
    except RequestFailed as error:
        if error.code != _TAKEN:
            raise
        return upload.send(client, organization, pipeline, body)  # another process has just created it
    try:
        build = upload.send(client, organization, pipeline, body)
    except (RequestFailed, KeyboardInterrupt) as error:
        if not _keeps_pipeline(error, upload):
            with suppress(RequestFailed):
                mine = int(isinstance(error, RequestFailed) and error.code == _REJECTED)
                if client.build_count(organization, pipeline) <= mine:  # none of another process
                    client.delete_pipeline(organization, pipeline)
        raise
    screen.print(f"created the pipeline {pipeline} in {organization}")
    return build


def _keeps_pipeline(error: RequestFailed | KeyboardInterrupt, upload: _Upload) -> bool:
    """Tell whether a new pipeline stays without a build that is known. Only admins may delete it.

    It stays if its build was rejected, to be inspected, unless its slug is wrong; or if the service may still make the
    build.
    """
    if isinstance(error, RequestFailed):
        return error.code == _REJECTED and _UNKNOWN_PIPELINE not in str(error)
    return upload.complete


def _next_step(name: BuildName, summary: Summary) -> str:
    failed = next((row.job for row in summary.rows if row.job.state.failed), None)
    if failed is None:
        return f"Its logs again: `ci-daemon build logs {name}`"
    return f"The log of what failed: `ci-daemon build logs {name} {failed.step_key}`"
