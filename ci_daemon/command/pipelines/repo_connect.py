"""`ci-daemon repo connect`: at a source host, on the box or of a server; elsewhere, on the box."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from actors.repositories import (
    GitError,
    Remote,
    RemoteInvalid,
    fingerprint,
    heads_at,
    install_hook,
    new_deploy_key,
    server_hook,
)
from ci_daemon.command.backend.box.repositories import repository_of
from ci_daemon.command.backend.repositories import HostedRepository, RepositoryKey
from ci_daemon.command.pipelines.repo_access import (
    HOOK_ADVICE,
    given_password,
    key_lines,
    poll_seconds,
    server_key,
    token_file_option,
    url_argument,
    user_option,
)
from ci_daemon.command.support.command_classes import SharedCommand
from ci_daemon.command.support.documents import document_of
from ci_daemon.command.support.lookup import find_organization
from ci_daemon.command.support.session import Failure, Session, pass_session
from storage import DeployKey, RepositoryConnected, repo_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage import GitCredential, Repository, Storage

_MAX_TOKEN = 4096
_POLL_SECONDS = 60
_EXAMPLES = """\b
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
_BOX_ALONE = (
    "with a server, repositories at Forgejo, Gitea and GitLab are connected, by --token-file FILE without --user;"
    " one on a plain git server is connected by the owner of the service's host, who runs `ci-daemon repo connect`"
    " there"
)


@click.command(cls=SharedCommand, epilog=_EXAMPLES)
@url_argument
@click.option("--org", required=True, help="The organization that the builds belong to.")
@click.option("--name", metavar="OWNER/REPO", help="Its name for pipelines; by default the end of the URL or path.")
@click.option(
    "--poll",
    type=poll_seconds,
    metavar="SECONDS",
    help=f"The seconds between two looks for pushes; by default {_POLL_SECONDS}.",
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
    poll: int | None,
    submodules: bool,
    lfs: bool,
    user: str | None,
    token_file: TextIO | None,
    provider: str | None,
) -> None:
    """Build what is pushed from now on to a git repository: an https or ssh URL, or a path on this host.

    Each pushed branch or tag is built by the pipelines that its own commit declares, if their triggers want it.

    With --token-file and no --user the repository is one at Forgejo, Gitea or GitLab: the webhook is made there, and
    commits and pull requests show the states of their builds. Connecting again replaces the token.

    Repositories on plain git servers are connected on the box alone. For ssh a deploy key is made and printed, to be
    added to the repository on its server, and the server's key is trusted from then on. The service's user must be able
    to read a path. There a post-receive hook is installed, if there is none and that user may write it, so that pushes
    are reported at once; otherwise the hook is printed.
    """
    if token_file is not None and user is None:
        if name is not None or poll is not None:
            raise click.UsageError("--name and --poll are for plain git servers: leave them out with a host's token")
        token = token_file.read(_MAX_TOKEN).strip()
        if not token:
            raise Failure(f"{token_file.name} is empty: write a token of the host's into it")
        _connect_at_host(session, org, HostedRepository(url, token, provider, submodules or None, lfs or None))
        return
    if session.server() is not None:
        raise Failure(_BOX_ALONE)
    address, seconds = _address(url), poll or _POLL_SECONDS
    known_as = name or _default_name(address)
    if known_as is None or known_as.count("/") != 1 or not all(known_as.split("/")):
        raise Failure(f"{url} names no owner and repository: give --name OWNER/REPO")
    with session.storage_without_billing() as storage:
        organization = find_organization(storage, org)
        credential = _credential(address, known_as, user, token_file)
        heads, unread = _heads(session, address, credential)
        with storage.transaction():
            try:
                connected = storage.repositories.connect(organization.id, address, known_as, seconds)
            except RepositoryConnected as error:
                raise Failure(str(error)) from None
            connected = storage.repositories.edit(connected, submodules=submodules, lfs=lfs)
            token = _prepared(storage, connected, credential, heads)
        document, service = document_of(repository_of(storage, connected, None)), session.service_url()
    hooked = connected.is_path and install_hook(Path(address), service, token)
    how = "its hook reports them at once" if hooked else f"the service looks every {seconds} s"
    lines = [f"pushes to {address} are built for {org}: {how}", *unread]
    if not hooked:
        script = server_hook(service, token)
        document["hook_script"] = script
        lines += ["", HOOK_ADVICE, script]
    if isinstance(credential, DeployKey):
        key = RepositoryKey(connected.uuid, credential.public_key, fingerprint(credential.host_key))
        document |= document_of(key)
        lines += ["", *key_lines(key)]
    session.answer(document | {"hook": hooked}, "\n".join(lines))


def _prepared(
    storage: Storage,
    connected: Repository,
    credential: GitCredential | DeployKey | None,
    heads: Mapping[str, str] | None,
) -> str:
    """Keep what a repository is read with, and the heads that it has; return the token of its hook."""
    if credential is not None:
        storage.repository_credentials.put(connected, credential)
    if heads is not None:
        storage.repository_checks.record_heads(connected, heads)
    return storage.repositories.mint_token(connected)


def _heads(
    session: Session, address: str, credential: GitCredential | DeployKey | None
) -> tuple[Mapping[str, str] | None, list[str]]:
    """Return the heads of a repository, so that all later ones are built, or why they cannot be read.

    A new deploy key is not at its server yet, and the lines that follow say so.
    """
    if isinstance(credential, DeployKey):
        return None, []
    try:
        return heads_at(address, session.config().repositories, credential), []
    except GitError as error:
        return None, [f"it cannot be read yet, and pushes before the first look that succeeds may be missed: {error}"]


def _connect_at_host(session: Session, org: str, hosted: HostedRepository) -> None:
    with session.backend() as backend:
        connected = backend.repositories.connect(org, hosted)
    how = f"{connected.provider} reports them, and shows the states of their builds"
    session.answer(document_of(connected), f"pushes to {connected.url} are built for {org}: {how}")


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


def _credential(
    address: str, known_as: str, user: str | None, token_file: TextIO | None
) -> GitCredential | DeployKey | None:
    """Return the credential of a new repository: the password that was given, or a new key.

    Raises Failure.
    """
    protocol = Remote.parse(address).protocol
    if user is not None or token_file is not None:
        if protocol != "https":
            raise Failure("--user and --token-file are for https URLs")
        return given_password(user, token_file)
    return new_deploy_key(known_as, server_key(address)) if protocol == "ssh" else None
