"""`ci-daemon repo`: connect repositories, whose pushes are built, as the owner of the host."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from ci_daemon.command.support.command_classes import Group
from ci_daemon.command.support.lookup import find_organization
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.command.support.timestamps import timestamp
from ci_daemon.push_hook import install_hook, remove_hook
from storage import RepositoryConnected, repo_name

if TYPE_CHECKING:
    from storage import Repository, Storage

__all__ = ["repo"]

_COLUMNS = ("org", "url", "repo_name", "poll_seconds", "checked_at", "last_error")
_DAY = 86_400


@click.group(cls=Group)
def repo() -> None:
    """Repositories whose pushes are built."""


@repo.command()
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
@pass_session
def connect(session: Session, *, url: str, org: str, name: str | None, poll: int) -> None:
    """Build what is pushed from now on to a git repository: an https URL, or a path on this host.

    Each pushed branch or tag is built by the pipelines that its own commit declares, if their triggers want it. The
    service's user must be able to read a path. There a post-receive hook is installed, if there is none and that user
    may write it, so that pushes are reported at once.
    """
    address = _address(url)
    known_as = name or _default_name(address)
    if known_as is None or known_as.count("/") != 1 or not all(known_as.split("/")):
        raise Failure(f"{url} names no owner and repository: give --name OWNER/REPO")
    with session.storage_without_billing() as storage:
        organization = find_organization(storage, org)
        try:
            connected = storage.repositories.connect(organization.id, address, known_as, poll)
        except RepositoryConnected as error:
            raise Failure(str(error)) from None
        document = _document(storage, connected)
        hooked = False
        if connected.is_path:
            hooked = install_hook(Path(address), session.config().http.url, storage.repositories.mint_token(connected))
    how = "its hook reports them at once" if hooked else f"the service looks every {poll} s"
    session.answer(document | {"hook": hooked}, f"pushes to {address} are built for {org}: {how}")


@repo.command(name="list", reads=True)
@pass_session
def list_repositories(session: Session) -> None:
    """List the connected repositories, and why the last look at one failed."""
    with session.storage_without_billing() as storage:
        documents = [_document(storage, each) for each in storage.repositories.all()]
    session.table(documents, _COLUMNS, "no repository is connected: `ci-daemon repo connect` connects one")


@repo.command()
@click.argument("url", metavar="URL|PATH")
@click.option("--org", required=True, help="The organization that it is connected to.")
@pass_session
def remove(session: Session, *, url: str, org: str) -> None:
    """Build no more pushes to a repository. Its pipelines and builds stay."""
    from actors.repositories import MIRRORS  # noqa: PLC0415 - the other commands need no mirror

    with session.storage_without_billing() as storage:
        found = storage.repositories.find(find_organization(storage, org).id, url)
        found = found or storage.repositories.find(find_organization(storage, org).id, _address(url))
        if found is None:
            raise Failure(f"{url} is not connected to {org}: `ci-daemon repo list` shows what is")
        document = _document(storage, found)
        storage.repositories.remove(found)
    if found.is_path:
        remove_hook(Path(found.url), session.config().http.url)
    shutil.rmtree(session.state_dir / MIRRORS / found.uuid, ignore_errors=True)
    session.answer(document, f"pushes to {found.url} are no longer built for {org}")


def _address(url: str) -> str:
    """Return a URL or an absolute path that may be stored. Raises Failure."""
    if not url.isprintable() or len(url) > 1000:  # noqa: PLR2004 - far more than any URL
        raise Failure("the URL or path has characters that cannot be shown, or more than 1,000 characters")
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        if parts.username is not None or parts.password is not None or parts.query:
            raise Failure("the URL contains a user, password or query: nothing secret is kept in it, so leave them out")
        return url
    if parts.scheme or "@" in url.partition("/")[0]:
        raise Failure(f"{url} cannot be fetched: give an https URL or a path on this host")
    path = Path(url).resolve()
    if not (path / "HEAD").is_file() and not (path / ".git" / "HEAD").is_file():
        raise Failure(f"{path} is no git repository that this user can read: correct the path or its permissions")
    return str(path)


def _default_name(address: str) -> str | None:
    return repo_name(address if "://" in address else f"file://host{address}")


def _document(storage: Storage, each: Repository) -> dict[str, object]:
    organization = storage.organizations.by_id(each.organization_id)
    return {
        "id": each.uuid,
        "org": organization and organization.slug,
        "url": each.url,
        "repo_name": each.repo_name,
        "default_branch": each.default_branch,
        "poll_seconds": each.poll_seconds,
        "checked_at": each.checked_at and timestamp(each.checked_at),
        "next_check_at": timestamp(each.next_check_at),
        "last_error": each.last_error,
    }
