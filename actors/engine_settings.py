"""The settings of the engine, which a reload may replace while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.front_end import FrontEnd
from storage import immutable

if TYPE_CHECKING:
    from actors.ir import IrSettings
    from actors.mail import MailSettings
    from actors.notifications import NotificationSettings
    from actors.render.settings import RenderSettings
    from actors.repositories.settings import RepositorySettings, SourceSettings
    from actors.settings import ArtifactSettings, CacheSettings, JobSettings, PoolSettings, RetentionSettings


@immutable
class EngineSettings:
    """The sections that the engine uses, and the addresses of the API.

    ``api_address`` is where this process reaches the API, ``base_url`` is what goes into ``CI_BUILD_URL``.
    """

    pool: PoolSettings
    jobs: JobSettings
    retention: RetentionSettings
    cache: CacheSettings
    artifacts: ArtifactSettings
    render: RenderSettings
    ir: IrSettings
    mail: MailSettings
    notifications: NotificationSettings
    repositories: RepositorySettings
    source: SourceSettings
    base_url: str
    api_address: tuple[str, int]
    front_end: FrontEnd | None = None
    """The pages of another front end; by default those of the console, at ``base_url``."""

    @property
    def pages(self) -> FrontEnd:
        """The pages that links lead to."""
        return self.front_end or FrontEnd(self.base_url)


@dataclass(slots=True)
class LiveSettings:
    """The settings in force: read them at each use, a reload replaces them. Only the engine writes here."""

    now: EngineSettings
