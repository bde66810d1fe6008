"""The choice of the provider that makes a VM (engine.md, "Leases")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.vms import public_name
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.settings import EngineSettings, LiveSettings
    from storage import Storage


@immutable
class ProviderRules:
    """The owner's choices of providers: of the host, of pull requests from forks, of images by name."""

    host: str
    fork: str | None
    images: Mapping[str, str]

    @classmethod
    def of(cls, settings: EngineSettings) -> ProviderRules:
        """Return the rules of a configuration."""
        pool = settings.pool
        return cls(pool.provider, settings.repositories.fork_provider, pool.image_providers)

    def choose(self, image: str, organization: str | None, *, from_fork: bool) -> str:
        """Return the provider for an image, and an organization that may have its own.

        That of forks comes before the image's, because a fork's build names its images itself.
        """
        of_fork = self.fork if from_fork else None
        return of_fork or self.images.get(public_name(image)) or organization or self.host


class ProviderChoice:
    """Chooses the provider of each VM as its lease is reserved, which names it. Safe in any thread."""

    def __init__(self, storage: Storage, live_settings: LiveSettings) -> None:
        self._storage = storage
        self._live_settings = live_settings

    @property
    def host(self) -> str:
        """The provider where nobody has chosen another one."""
        return self._live_settings.now.pool.provider

    def of_job(self, job_id: int, build_id: int, image: str) -> str:
        """Return the provider of a build's ready job: that of the disk it starts from, if it starts from one."""
        disk = self._storage.snapshots.below(job_id)
        return self.of_build(build_id, image) if disk is None else disk.provider

    def member_of_disk(self, job_id: int) -> str | None:
        """Return the member that has the disk which a ready job starts from.

        None if it starts from an image, and where all VMs are on one host.
        """
        disk = self._storage.snapshots.below(job_id)
        made_by = None if disk is None else self._storage.leases.by_uuid(disk.name)
        return None if made_by is None else made_by.member

    def of_build(self, build_id: int, image: str) -> str:
        """Return the provider of a VM of a build that starts from an image."""
        build = self._storage.builds.get(build_id)
        if build is None:  # it was deleted, so no VM will be made
            return self.host
        organization = self._storage.organizations.by_id(build.organization_id)
        own = None if organization is None else organization.provider
        return ProviderRules.of(self._live_settings.now).choose(image, own, from_fork=build.from_fork)

    def of_archive(self, slug: str, image: str, *, from_fork: bool) -> str:
        """Return the provider of the VM in which an archive of an organization is rendered without a build."""
        organization = self._storage.organizations.by_slug(slug)
        own = None if organization is None else organization.provider
        return ProviderRules.of(self._live_settings.now).choose(image, own, from_fork=from_fork)
