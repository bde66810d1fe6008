"""Find records by their names on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_daemon.command.support.session import Failure

if TYPE_CHECKING:
    from ci_daemon.command.support.names import BuildName
    from storage import Build, Organization, Pipeline, Storage


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


def find_build(storage: Storage, name: BuildName) -> Build:
    """Return a build by its name. Raises Failure."""
    build = storage.builds.by_number(find_pipeline(storage, name.org, name.pipeline).id, name.number)
    if build is None:
        pipeline = name.of_pipeline
        raise Failure(f"{pipeline} has no build {name.number}: `ci-daemon build list {pipeline}` shows all")
    return build
