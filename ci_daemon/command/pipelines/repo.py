"""`ci-daemon repo`: connect repositories, whose pushes are built, on the box or of a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from ci_daemon.command.backend.repositories import RepositoryChanges
from ci_daemon.command.pipelines.repo_access import (
    HOOK_ADVICE,
    given_password,
    key_lines,
    org_option,
    poll_seconds,
    rotate_key,
    token_file_option,
    trust,
    url_argument,
    user_option,
)
from ci_daemon.command.pipelines.repo_connect import connect
from ci_daemon.command.support.command_classes import Group, SharedCommand
from ci_daemon.command.support.documents import document_of
from ci_daemon.command.support.session import Failure, Session, pass_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ci_daemon.command.backend.repositories import Repository

_COLUMNS = ("org", "url", "provider", "repo_name", "poll_seconds", "checked_at", "last_error")

_PUSH_COLUMNS = ("recorded_at", "name", "commit", "outcome")


@click.group(cls=Group)
def repo() -> None:
    """Repositories whose pushes are built."""


for _command in (connect, rotate_key, trust):
    repo.add_command(_command)


@repo.command(name="list", cls=SharedCommand, reads=True)
@click.option("--org", help="Only those that are connected to this organization.")
@pass_session
def list_repositories(session: Session, *, org: str | None) -> None:
    """List the connected repositories, and why the last look at one or report to its host failed."""
    with session.backend() as backend:
        documents = [document_of(each) for each in backend.repositories.all(org)]
    columns = [each for each in _COLUMNS if documents and each in documents[0]]
    session.table(documents, columns, "no repository is connected: `ci-daemon repo connect` connects one")


@repo.command(cls=SharedCommand, reads=True)
@click.argument("repository", metavar="URL|NAME")
@click.option("--org", help="The organization that it is connected to, if several are.")
@pass_session
def show(session: Session, *, repository: str, org: str | None) -> None:
    """Show a repository: when it was looked at, why that failed, and what came of its last pushes."""
    with session.backend() as backend:
        found = _named(backend.repositories.all(org), repository)
        shown, pushes = backend.repositories.show(found.org, found.url)
    document, documents = document_of(shown), [document_of(each) for each in pushes]
    if session.json:
        session.answer({**document, "pushes": documents}, "")
        return
    session.properties(document)
    session.table(documents, _PUSH_COLUMNS, "nothing was pushed to it in the last seven days")


def _named(connected: Sequence[Repository], name: str) -> Repository:
    """Return the repository of a URL, path or name. Raises Failure."""
    at = name if "://" in name else str(Path(name).resolve())
    found = [each for each in connected if name in {each.url, each.repo_name} or each.url == at]
    if not found:
        raise Failure(f"{name} is not connected: `ci-daemon repo list` shows what is")
    if len({each.org for each in found}) > 1:
        raise Failure(f"{name} is connected to {', '.join(sorted(each.org for each in found))}: give --org")
    if len(found) > 1:
        raise Failure(f"{name} names {', '.join(sorted(each.url for each in found))}: give the URL")
    return found[0]


@repo.command(cls=SharedCommand)
@url_argument
@org_option
@click.option("--poll", type=poll_seconds, metavar="SECONDS", help="The seconds between two looks; only on the box.")
@click.option("--submodules/--no-submodules", default=None, help="Pack the files of submodules, too, or do not.")
@click.option("--lfs/--no-lfs", default=None, help="Pack the files of git LFS, too, or do not.")
@user_option
@token_file_option
@pass_session
def edit(
    session: Session,
    *,
    url: str,
    org: str,
    poll: int | None,
    submodules: bool | None,
    lfs: bool | None,
    user: str | None,
    token_file: TextIO | None,
) -> None:
    """Change how a repository is fetched and packed; what is not given stays. It is looked at at once.

    The hook that an earlier release installed in a folder of this host is replaced by that of this one.
    """
    password = given_password(user, token_file) if user is not None or token_file is not None else None
    changes = RepositoryChanges(submodules, lfs, poll, password)
    with session.backend() as backend:
        document = document_of(backend.repositories.edit(org, url, changes))
    session.answer(document, f"{document['url']} is changed, and looked at at once")


@repo.command(cls=SharedCommand)
@url_argument
@org_option
@pass_session
def remove(session: Session, *, url: str, org: str) -> None:
    """Build no more pushes to a repository. Its pipelines and builds stay.

    The webhook of one at Forgejo, Gitea or GitLab is removed, too.
    """
    with session.backend() as backend:
        document = document_of(backend.repositories.remove(org, url))
    session.answer(document, f"pushes to {document['url']} are no longer built for {org}")


@repo.command(cls=SharedCommand, reads=True)
@url_argument
@org_option
@pass_session
def key(session: Session, *, url: str, org: str) -> None:
    """Show the deploy key of an ssh repository, to be added to it on its server."""
    with session.backend() as backend:
        found = backend.repositories.key(org, url)
    session.answer(document_of(found), "\n".join(key_lines(found)))


@repo.command(cls=SharedCommand)
@url_argument
@org_option
@pass_session
def hook(session: Session, *, url: str, org: str) -> None:
    """Print a hook that reports pushes at once, for the repository on its server.

    An earlier hook reports no more.
    """
    with session.backend() as backend:
        made = backend.repositories.make_hook(org, url)
    session.answer(document_of(made), f"{HOOK_ADVICE}\n{made.hook_script}")
