"""`ci-daemon repo`: connect repositories, whose pushes are built, as the owner of the host."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from actors.repositories import Remote, RemoteInvalid, install_hook, remove_hook, server_hook
from ci_daemon.command.builds.repo_access import (
    HOOK_ADVICE,
    find_repository,
    given_credential,
    given_password,
    hook,
    key,
    key_document,
    key_lines,
    org_option,
    rotate_key,
    token_file_option,
    trust,
    user_option,
)
from ci_daemon.command.support.command_classes import Group
from ci_daemon.command.support.lookup import find_organization
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.command.support.timestamps import timestamp
from ci_daemon.overview import repository_errors
from storage import GIT, DeployKey, RepositoryConnected, repo_name

if TYPE_CHECKING:
    from storage import Repository, Storage

__all__ = ["repo"]

_COLUMNS = ("org", "url", "provider", "repo_name", "poll_seconds", "checked_at", "last_error")
_DAY = 86_400
_CONNECT_EXAMPLES = """\b
A repository at a Forgejo, Gitea or GitLab, by a token:
  ci-daemon repo connect https://codeberg.org/acme/web \\
    --org acme --token-file token
One at a plain server, by a password:
  ci-daemon repo connect https://git.example.org/acme/web.git \\
    --org acme --user ci --token-file token
One at a plain server, by a deploy key:
  ci-daemon repo connect git@git.example.org:acme/web.git \\
    --org acme --submodules
One on this host:
  ci-daemon repo connect /srv/git/acme/web.git --org acme --poll 3600
"""


@click.group(cls=Group)
def repo() -> None:
    """Repositories whose pushes are built."""


for _command in (key, rotate_key, trust, hook):
    repo.add_command(_command)


@repo.command(epilog=_CONNECT_EXAMPLES)
@click.argument("url", metavar="URL|PATH")
@click.option("--org", required=True, help="The organization that the builds belong to.")
@click.option("--name", metavar="OWNER/REPO", help="Its name for pipelines; by default the end of the URL or path.")
@click.option(
    "--poll",
    type=click.IntRange(1, _DAY),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="The seconds between two looks for pushes.",
)
@click.option("--submodules", is_flag=True, help="Pack the files of submodules, too.")
@click.option("--lfs", is_flag=True, help="Pack the files of git LFS, too.")
@user_option
@token_file_option
@click.option(
    "--provider",
    type=click.Choice(["forgejo", "gitea", "gitlab"]),
    help="The kind of the host that the token is for; by default it is asked.",
)
@pass_session
def connect(
    session: Session,
    *,
    url: str,
    org: str,
    name: str | None,
    poll: int,
    submodules: bool,
    lfs: bool,
    user: str | None,
    token_file: TextIO | None,
    provider: str | None,
) -> None:
    """Build what is pushed from now on to a git repository: an https or ssh URL, or a path on this host.

    Each pushed branch or tag is built by the pipelines that its own commit declares, if their triggers want it. For ssh
    a deploy key is made and printed, to be added to the repository on its server, and the server's key is trusted from
    then on. The service's user must be able to read a path. There a post-receive hook is installed, if there is none
    and that user may write it, so that pushes are reported at once; otherwise the hook is printed.

    With --token-file and no --user the repository is one at Forgejo, Gitea or GitLab: the webhook is made there, and
    commits and pull requests show the states of their builds. Connecting again replaces the token.
    """
    if token_file is not None and user is None:
        _connect_at_forge(session, url, org, token_file, provider, submodules=submodules, lfs=lfs)
        return
    address = _address(url)
    known_as = name or _default_name(address)
    if known_as is None or known_as.count("/") != 1 or not all(known_as.split("/")):
        raise Failure(f"{url} names no owner and repository: give --name OWNER/REPO")
    with session.storage_without_billing() as storage:
        organization = find_organization(storage, org)
        credential = given_credential(address, known_as, user, token_file)
        with storage.transaction():
            try:
                connected = storage.repositories.connect(organization.id, address, known_as, poll)
            except RepositoryConnected as error:
                raise Failure(str(error)) from None
            connected = storage.repositories.edit(connected, submodules=submodules, lfs=lfs)
            if credential is not None:
                storage.repository_credentials.put(connected, credential)
            token = storage.repositories.mint_token(connected)
        document, service = _document(storage, connected), session.config().http.url
    hooked = connected.is_path and install_hook(Path(address), service, token)
    how = "its hook reports them at once" if hooked else f"the service looks every {poll} s"
    lines = [f"pushes to {address} are built for {org}: {how}"]
    if not hooked:
        script = server_hook(service, token)
        document["hook_script"] = script
        lines += ["", HOOK_ADVICE, script]
    if isinstance(credential, DeployKey):
        document |= key_document(credential)
        lines += ["", *key_lines(credential)]
    session.answer(document | {"hook": hooked}, "\n".join(lines))


@repo.command()
@click.argument("url", metavar="URL|PATH")
@org_option
@click.option("--poll", type=click.IntRange(1, _DAY), metavar="SECONDS", help="The seconds between two looks.")
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
    """Change how a repository is fetched and packed; what is not given stays. It is looked at at once."""
    with session.storage_without_billing() as storage:
        found = find_repository(storage, url, org)
        if user is not None or token_file is not None:
            if found.provider != GIT or not found.url.startswith("https:"):
                raise Failure(f"{found.url} needs no user and token: only plain https servers do")
            storage.repository_credentials.put(found, given_password(user, token_file))
        found = storage.repositories.edit(found, poll_seconds=poll, submodules=submodules, lfs=lfs)
        document = _document(storage, found)
    session.answer(document, f"{found.url} is changed, and looked at at once")


@repo.command(name="list", reads=True)
@pass_session
def list_repositories(session: Session) -> None:
    """List the connected repositories, and why the last look at one or report to its host failed."""
    with session.storage_without_billing() as storage:
        errors = repository_errors(storage)
        documents = [
            _document(storage, each) | {"last_error": errors.get(each.id)} for each in storage.repositories.all()
        ]
    session.table(documents, _COLUMNS, "no repository is connected: `ci-daemon repo connect` connects one")


@repo.command()
@click.argument("url", metavar="URL|PATH")
@org_option
@pass_session
def remove(session: Session, *, url: str, org: str) -> None:
    """Build no more pushes to a repository. Its pipelines and builds stay.

    The webhook of one at Forgejo, Gitea or GitLab is removed, too.
    """
    from actors.repositories import MIRRORS  # noqa: PLC0415 - the other commands need no mirror

    with session.storage_without_billing() as storage:
        found = find_repository(storage, url, org)
        document, left = _document(storage, found), None
        if found.provider == GIT:
            storage.repositories.remove(found)
        else:
            from ci_daemon.command.builds.repo_forge import disconnect_at_forge  # noqa: PLC0415 - as above

            left = disconnect_at_forge(session, storage, found)
    if left is not None:
        click.echo(f"its webhook may still be there: {left}", err=True)
    if found.is_path:
        remove_hook(Path(found.url), session.config().http.url)
    shutil.rmtree(session.state_dir / MIRRORS / found.uuid, ignore_errors=True)
    session.answer(document, f"pushes to {found.url} are no longer built for {org}")


def _connect_at_forge(
    session: Session, url: str, org: str, token_file: TextIO, provider: str | None, *, submodules: bool, lfs: bool
) -> None:
    from ci_daemon.command.builds.repo_forge import connect_at_forge  # noqa: PLC0415 - the others ask no host

    with session.storage_without_billing() as storage:
        connected = connect_at_forge(session, storage, find_organization(storage, org), url, token_file, provider)
        connected = storage.repositories.edit(connected, submodules=submodules or None, lfs=lfs or None)
        document = _document(storage, connected)
    how = f"{connected.provider} reports them, and shows the states of their builds"
    session.answer(document, f"pushes to {connected.url} are built for {org}: {how}")


def _address(url: str) -> str:
    """Return a URL or an absolute path that may be stored. Raises Failure."""
    if not url.isprintable():
        raise Failure("the URL or path has characters that cannot be shown")
    if ":" not in url.partition("/")[0]:
        path = Path(url).resolve()
        if not (path / "HEAD").is_file() and not (path / ".git" / "HEAD").is_file():
            raise Failure(f"{path} is no git repository that this user can read: correct the path or its permissions")
        url = str(path)
    try:
        return Remote.parse(url).url
    except RemoteInvalid as error:
        raise Failure(str(error)) from None


def _default_name(address: str) -> str | None:
    return repo_name(f"file://host{address}" if address.startswith("/") else address)


def _document(storage: Storage, each: Repository) -> dict[str, object]:
    organization = storage.organizations.by_id(each.organization_id)
    connection = None if each.connection_id is None else storage.host_connections.get(each.connection_id)
    return {
        "id": each.uuid,
        "org": organization and organization.slug,
        "url": each.url,
        "provider": each.provider,
        "account": connection and connection.account,
        "repo_name": each.repo_name,
        "default_branch": each.default_branch,
        "poll_seconds": each.poll_seconds,
        "submodules": each.submodules,
        "lfs": each.lfs,
        "checked_at": each.checked_at and timestamp(each.checked_at),
        "next_check_at": timestamp(each.next_check_at),
        "last_error": each.last_error,
    }
