"""Find records by their names on the command line: EMAIL, ORG, ORG/PIPELINE/NUMBER."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_daemon.command.support.session import Failure

if TYPE_CHECKING:
    from storage import Build, Organization, Pipeline, Storage, User

__all__ = ["find_build", "find_organization", "find_pipeline", "find_user"]


def find_user(storage: Storage, email: str) -> User:
    """Return a user by e-mail address. Raises Failure."""
    user = storage.users.by_email(email)
    if user is None:
        raise Failure(f"there is no user {email}: `ci-daemon user list` shows all")
    return user


def find_organization(storage: Storage, slug: str) -> Organization:
    """Return an organization by its slug. Raises Failure."""
    organization = storage.organizations.by_slug(slug)
    if organization is None:
        raise Failure(f"there is no organization {slug}: `ci-daemon org list` shows all")
    return organization


def find_pipeline(storage: Storage, organization: str, slug: str) -> Pipeline:
    """Return a pipeline by its organization's slug and its own. Raises Failure."""
    pipeline = storage.pipelines.by_slug(find_organization(storage, organization).id, slug)
    if pipeline is None:
        raise Failure(f"{organization} has no pipeline {slug}: `ci-daemon pipeline list {organization}` shows all")
    return pipeline


def find_build(storage: Storage, name: str) -> Build:
    """Return a build by ORG/PIPELINE/NUMBER. Raises Failure."""
    organization, _, rest = name.partition("/")
    slug, _, number = rest.partition("/")
    if not (organization and slug and number.isascii() and number.isdecimal()):
        raise Failure(f'"{name}" is not the name of a build: write ORG/PIPELINE/NUMBER, as in acme/web/12')
    pipeline = find_pipeline(storage, organization, slug)
    build = storage.builds.by_number(pipeline.id, int(number))
    if build is None:
        raise Failure(
            f"{organization}/{slug} has no build {number}: `ci-daemon build list {organization}/{slug}` shows all"
        )
    return build
