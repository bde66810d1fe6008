"""Keys, passwords and hooks of repositories on git servers: options and commands of `ci-daemon repo`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from actors.repositories import GitError, Remote, fingerprint, host_key, new_deploy_key, server_hook
from ci_daemon.command.support.command_classes import Command
from ci_daemon.command.support.lookup import find_organization
from ci_daemon.command.support.session import Failure, Session, pass_session
from storage import GIT, DeployKey, GitCredential

if TYPE_CHECKING:
    from storage import Repository, Storage

__all__ = [
    "HOOK_ADVICE",
    "find_repository",
    "given_credential",
    "given_password",
    "hook",
    "key",
    "key_document",
    "key_lines",
    "org_option",
    "rotate_key",
    "token_file_option",
    "trust",
    "user_option",
]

HOOK_ADVICE = "to have pushes reported at once, run this as its owner in the folder of the bare repository:"
_MAX_TOKEN = 64 * 1024

org_option = click.option("--org", required=True, help="The organization that it is connected to.")
user_option = click.option("--user", metavar="NAME", help="The user to fetch as from a plain https server.")
token_file_option = click.option(
    "--token-file",
    type=click.File(),
    help="The file with that user's password, or with a token of a host; - for standard input.",
)


@click.command(cls=Command, reads=True)
@click.argument("url", metavar="URL")
@org_option
@pass_session
def key(session: Session, *, url: str, org: str) -> None:
    """Show the deploy key of an ssh repository, to be added to it on its server."""
    with session.storage_without_billing() as storage:
        found = find_repository(storage, url, org)
        deploy_key = _deploy_key(storage, found)
    session.answer({"id": found.uuid} | key_document(deploy_key), "\n".join(key_lines(deploy_key)))


@click.command(cls=Command)
@click.argument("url", metavar="URL")
@org_option
@pass_session
def rotate_key(session: Session, *, url: str, org: str) -> None:
    """Make a new deploy key for an ssh repository, and show it; the former is forgotten."""
    with session.storage_without_billing() as storage:
        found = find_repository(storage, url, org)
        deploy_key = new_deploy_key(found.repo_name, _deploy_key(storage, found).host_key)
        storage.repository_credentials.put(found, deploy_key)
    session.answer({"id": found.uuid} | key_document(deploy_key), "\n".join(key_lines(deploy_key)))


@click.command(cls=Command)
@click.argument("url", metavar="URL")
@org_option
@pass_session
def trust(session: Session, *, url: str, org: str) -> None:
    """Trust the key that the server of an ssh repository has now, in place of the one that was trusted."""
    with session.storage_without_billing() as storage:
        found = find_repository(storage, url, org)
        before = _deploy_key(storage, found)
        after = replace(before, host_key=_host_key(found.url))
        storage.repository_credentials.put(found, after)
        storage.repository_checks.hasten(found.id)
    was, now = fingerprint(before.host_key), fingerprint(after.host_key)
    text = f"the server's key is {now}, as before" if was == now else f"the server's key is {now} now; it was {was}"
    session.answer({"id": found.uuid, "was": was} | key_document(after), text)


@click.command(cls=Command)
@click.argument("url", metavar="URL")
@org_option
@pass_session
def hook(session: Session, *, url: str, org: str) -> None:
    """Print a hook that reports pushes at once, for the repository on its server.

    An earlier hook reports no more.
    """
    with session.storage_without_billing() as storage:
        found = find_repository(storage, url, org)
        if found.provider != GIT:
            raise Failure(f"{found.url} is at a host that reports pushes by itself")
        script = server_hook(session.config().http.url, storage.repositories.mint_token(found))
    session.answer({"id": found.uuid, "hook_script": script}, f"{HOOK_ADVICE}\n{script}")


def find_repository(storage: Storage, url: str, org: str) -> Repository:
    """Return a connected repository. Raises Failure."""
    organization = find_organization(storage, org)
    found = storage.repositories.find(organization.id, url)
    if found is None and "://" not in url:
        found = storage.repositories.find(organization.id, str(Path(url).resolve()))
    if found is None:
        raise Failure(f"{url} is not connected to {org}: `ci-daemon repo list` shows what is")
    return found


def given_credential(
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
    return new_deploy_key(known_as, _host_key(address)) if protocol == "ssh" else None


def given_password(user: str | None, token_file: TextIO | None) -> GitCredential:
    """Return the user and password of the options. Raises Failure."""
    if user is None or token_file is None:
        raise Failure("--user and --token-file belong together: give both")
    try:
        return GitCredential(user, token_file.read(_MAX_TOKEN).strip())
    except ValueError as error:
        raise Failure(f"{error}: correct --user or the token's file") from None


def _host_key(address: str) -> str:
    try:
        return host_key(Remote.parse(address))
    except GitError as error:
        raise Failure(str(error)) from None


def _deploy_key(storage: Storage, repository: Repository) -> DeployKey:
    found = storage.repository_credentials.of(repository)
    if not isinstance(found, DeployKey):
        raise Failure(f"{repository.url} has no deploy key: only repositories with an ssh URL have one")
    return found


def key_document(deploy_key: DeployKey) -> dict[str, object]:
    """Return what `--json` shows of a deploy key."""
    return {"deploy_key": deploy_key.public_key, "host_key_fingerprint": fingerprint(deploy_key.host_key)}


def key_lines(deploy_key: DeployKey) -> tuple[str, ...]:
    """Return what people are shown of a deploy key."""
    return (
        "add this deploy key to the repository on its server; it needs to read only:",
        deploy_key.public_key,
        f"the server's key, which is trusted from now on: {fingerprint(deploy_key.host_key)}",
    )
