"""Keys and passwords of repositories on git servers: options and commands of `ci-daemon repo`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

import click

from actors.repositories import GitError, Remote, fingerprint, host_key, new_deploy_key
from ci_daemon.command.backend.box.repositories import deploy_key
from ci_daemon.command.backend.repositories import RepositoryKey
from ci_daemon.command.support.command_classes import Command
from ci_daemon.command.support.documents import document_of
from ci_daemon.command.support.lookup import find_repository
from ci_daemon.command.support.session import Failure, Session, pass_session
from storage import GitCredential

if TYPE_CHECKING:
    from storage import DeployKey, Repository

HOOK_ADVICE = "to have pushes reported at once, run this as its owner in the folder of the bare repository:"
_MAX_TOKEN = 64 * 1024
_DAY = 86_400

poll_seconds = click.IntRange(1, _DAY)
"""The type of the seconds between two looks at a repository."""

url_argument = click.argument("url", metavar="URL|PATH")
org_option = click.option("--org", required=True, help="The organization that it is connected to.")
user_option = click.option("--user", metavar="NAME", help="The user to fetch as from a plain https server.")
token_file_option = click.option(
    "--token-file",
    type=click.File(),
    help="The file with that user's password, or with a token of a host; - for standard input.",
)


@click.command(cls=Command)
@url_argument
@org_option
@pass_session
def rotate_key(session: Session, *, url: str, org: str) -> None:
    """Make a new deploy key for an ssh repository, and show it; the former is forgotten."""
    with session.storage_without_billing() as storage:
        found = find_repository(storage, url, org)
        made = new_deploy_key(found.repo_name, deploy_key(storage, found).host_key)
        storage.repository_credentials.put(found, made)
    shown = _shown(found, made)
    session.answer(document_of(shown), "\n".join(key_lines(shown)))


@click.command(cls=Command)
@url_argument
@org_option
@pass_session
def trust(session: Session, *, url: str, org: str) -> None:
    """Trust the key that the server of an ssh repository has now, in place of the one that was trusted."""
    with session.storage_without_billing() as storage:
        found = find_repository(storage, url, org)
        before = deploy_key(storage, found)
        after = replace(before, host_key=server_key(found.url))
        storage.repository_credentials.put(found, after)
        storage.repository_checks.hasten(found.id)
    was, now = fingerprint(before.host_key), fingerprint(after.host_key)
    text = f"the server's key is {now}, as before" if was == now else f"the server's key is {now} now; it was {was}"
    session.answer({**document_of(_shown(found, after)), "was": was}, text)


def given_password(user: str | None, token_file: TextIO | None) -> GitCredential:
    """Return the user and password of the options. Raises Failure."""
    if user is None or token_file is None:
        raise Failure("--user and --token-file belong together: give both")
    try:
        return GitCredential(user, token_file.read(_MAX_TOKEN).strip())
    except ValueError as error:
        raise Failure(f"{error}: correct --user or the token's file") from None


def server_key(address: str) -> str:
    """Return the key that the server of an ssh repository has now. Raises Failure."""
    try:
        return host_key(Remote.parse(address))
    except GitError as error:
        raise Failure(str(error)) from None


def key_lines(key: RepositoryKey) -> tuple[str, ...]:
    """Return what people are shown of a deploy key."""
    return (
        "add this deploy key to the repository on its server; it needs to read only:",
        key.deploy_key,
        f"the server's key, which is trusted from now on: {key.host_key_fingerprint}",
    )


def _shown(repository: Repository, key: DeployKey) -> RepositoryKey:
    return RepositoryKey(repository.uuid, key.public_key, fingerprint(key.host_key))
