"""`ci-daemon submit`: post a tree and its pipeline, follow the build, exit with its result."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from ci_daemon.command.session import Failure, Session, pass_session
from ci_daemon.command.style import CallersCommand
from ci_daemon.submit.client import ApiError, Client, pipeline_path
from ci_daemon.submit.follow import Follower
from ci_daemon.submit.origin import origin_of, slug_of, slug_of_folder
from ci_daemon.submit.pack import pack
from ci_daemon.submit.screen import Screen
from ci_daemon.submit.summary import summarize
from storage import slugify

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_daemon.submit.origin import Origin
    from ci_daemon.submit.pack import Archive
    from ci_daemon.submit.records import BuildRecord
    from ci_daemon.submit.summary import Summary

__all__ = ["submit"]

_EXIT_CODES = {"passed": 0, "failed": 1, "canceled": 3}
_INTERRUPTED = 130
_UNKNOWN = "unknown pipeline"
"""The service's message if DIR declares several pipelines, and none with the requested slug."""
_REJECTED = "build_plan_rejected"


def _url(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    if not _is_address(value):
        raise click.BadParameter(f"{value} is no address: give one such as https://ci.example.org")
    return value.rstrip("/")


def _is_address(url: str) -> bool:
    """Tell whether a URL consists of scheme, valid host, port and path, and nothing else."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna")
        extras = parts.port == 0 or parts.username or parts.query or parts.fragment
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(host) and url.isprintable() and " " not in url and not extras


def _token(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    token = (value or "").strip()
    if not token.isascii() or not token.isprintable():
        raise click.BadParameter("this is no API key: give the token that `ci-daemon user add` printed")
    return token or None


@click.command(cls=CallersCommand, reads=True)
@click.argument("tree", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--pipeline",
    metavar="SLUG",
    help="By default the only one that DIR declares; made where there is none of that slug.",
)
@click.option(
    "--ir",
    "ir_file",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The pipeline as v0 IR, in JSON, instead of rendering DIR's own.",
)
@click.option("--org", metavar="SLUG", help="The organization; by default your personal one.")
@click.option("--branch", help="By default the branch that git is on.")
@click.option("--commit", metavar="SHA", help="By default the commit that git is at.")
@click.option("--message", metavar="TEXT", help="By default the first line of that commit's message.")
@click.option("--debug", is_flag=True, help="Hold the VM of a failed job for a while, for `ci-daemon debug`.")
@click.option("--cancel-on-interrupt", is_flag=True, help="Cancel the build on Ctrl-C; by default it goes on.")
@click.option(
    "--url",
    envvar="CI_DAEMON_URL",
    default="http://127.0.0.1:8800",
    show_default=True,
    show_envvar=True,
    callback=_url,
    help="Where the service is.",
)
@click.option(
    "--token",
    envvar="CI_DAEMON_TOKEN",
    show_envvar=True,
    callback=_token,
    help="Your API key; rather set the variable.",
)
@click.option(
    "--then", metavar="LINE", multiple=True, hidden=True, help="End with these lines, not with the usual two."
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
    debug: bool,
    cancel_on_interrupt: bool,
    url: str,
    token: str | None,
    then: tuple[str, ...],
) -> int:
    """Run a pipeline over the files of DIR and follow it to its end.

    The service renders the pipeline from DIR's .hm/*.py. If these declare several, --pipeline chooses one.

    DIR is packed without .git and without what .gitignore files exclude. The log of every job is shown as it is
    written. The exit code is 0 if the build passed, 1 if it failed, 3 if it was canceled.

    With --json the log goes to stderr, and stdout gets one document at the end.
    """
    if not token:
        raise Failure("no API key: set CI_DAEMON_TOKEN to the token that `ci-daemon user add` printed")
    screen = Screen(sys.stderr if session.json else sys.stdout)
    guessed, pipeline = pipeline is None, pipeline or (slug_of_folder(tree) if ir_file else slug_of(tree))
    _check_slug(pipeline)
    origin, ir, archive = origin_of(tree), _ir(tree, ir_file), pack(tree)
    client = Client(url, token)
    organization = org or client.personal_organization()
    body = {
        "branch": branch or origin.branch,
        "commit": commit or origin.commit,
        "message": message or origin.message,
        "source": "cli",
        "pipeline_ir": ir,
        "debug": debug,
    }
    try:
        build = _create_build(client, organization, pipeline, origin, body, archive, screen)
    except ApiError as refusal:
        if guessed and _UNKNOWN in str(refusal):
            raise Failure(f"{refusal}: say which with --pipeline") from refusal
        raise
    path = f"{pipeline_path(organization, pipeline)}/builds/{build.number}"
    try:
        screen.say(f"build #{build.number} of {organization}/{pipeline}: {archive.files} files packed")
        summary = _follow(client, path, organization, pipeline, screen)
    except KeyboardInterrupt:
        if cancel_on_interrupt:
            client.cancel(path)
            screen.say(f"build #{build.number} is canceled")
            return _INTERRUPTED
        screen.say(f"build #{build.number} goes on without you; to cancel it:")
        screen.say(_curl(url, f"{path}/cancel", method="PUT"))
        return _INTERRUPTED
    # If following fails, a thread may still wait for a log. Only here does nothing use the client any more.
    client.close()
    if session.json:
        click.echo(json.dumps(summary.as_json(), indent=2))
    else:
        screen.summarize(summary)
        for line in then or _next_steps(url, path, summary):
            screen.say(line)
    return _EXIT_CODES[summary.build.state]


def _follow(client: Client, path: str, organization: str, pipeline: str, screen: Screen) -> Summary:
    for event in Follower(client, path).events():
        screen.show(event)
    build = client.build(path)
    return summarize(build, client.jobs(path), pipeline, client.debits_since(organization, build.created_at))


def _create_build(
    client: Client,
    organization: str,
    pipeline: str,
    origin: Origin,
    body: Mapping[str, object],
    archive: Archive,
    screen: Screen,
) -> BuildRecord:
    """Post a build, and create its pipeline if it does not exist. Raises ApiError."""
    if client.has_pipeline(organization, pipeline):
        return client.create_build(organization, pipeline, body, archive)
    client.create_pipeline(organization, pipeline, repository=origin.repository, default_branch=origin.branch)
    try:
        build = client.create_build(organization, pipeline, body, archive)
    except ApiError as refusal:
        # Keep the pipeline of a rejected build for a look at it, unless its slug is wrong. Only admins may delete it.
        if refusal.code != _REJECTED or _UNKNOWN in str(refusal):
            with suppress(ApiError):
                client.delete_pipeline(organization, pipeline)
        raise
    screen.say(f"made the pipeline {pipeline} in {organization}")
    return build


def _check_slug(pipeline: str) -> None:
    """Raise Failure if this is not a valid slug."""
    slug = slugify(pipeline)
    if slug != pipeline:
        raise Failure(f'"{pipeline}" is no slug' + (f": give --pipeline {slug}" if slug else ": use a-z, 0-9 and -"))


def _ir(tree: Path, file: Path | None) -> str | None:
    """Return the IR in a file; None without a file, for the service to render the tree's own.

    Raises Failure.
    """
    if file is None:
        if not any((tree / ".hm").glob("*.py")):
            raise Failure(f"{tree} has no pipeline: write one in {tree / '.hm'}/*.py, or give --ir FILE")
        return None
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise Failure(f"{file} is no UTF-8 text: give --ir the JSON that the pipeline renders to") from error
    if not text.strip():
        raise Failure(f"{file} is empty: give --ir the JSON that the pipeline renders to")
    return text


def _curl(url: str, path: str, method: str = "") -> str:
    how = f"-X {method} " if method else ""
    return f'curl {how}-H "Authorization: Bearer $CI_DAEMON_TOKEN" {url}{path}'


def _next_steps(url: str, path: str, summary: Summary) -> tuple[str, ...]:
    worst = next((row.job for row in summary.rows if row.job.state in {"failed", "timed_out"}), None)
    look = f"{path}/jobs/{worst.id}/log" if worst else f"{path}/jobs"
    return (
        f"{'Its log again' if worst else 'Its jobs as JSON'}: {_curl(url, look)}",
        "Once more: run the same command; --help says what else there is to set.",
    )
