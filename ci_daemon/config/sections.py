"""All sections of `ci-daemon.toml`; each is declared in the package that uses it."""

from __future__ import annotations

from dataclasses import field

from actors import (
    ArtifactSettings,
    CacheSettings,
    JobSettings,
    PoolSettings,
    PreviewSettings,
    RetentionSettings,
    TerminalSettings,
)
from actors.ir import IrSettings
from actors.mail import MailSettings
from actors.notifications import NotificationSettings
from actors.render import RenderSettings
from actors.repositories import RepositorySettings, SourceSettings
from actors.source_hosts import BitbucketSettings, GithubAppSettings
from actors.vms import ImageSettings, IncusSettings, QemuSettings, SandboxSettings
from api import HttpSettings, IdentitySettings, PaymentSettings, RateLimitSettings, RelyingParty
from ci_daemon.settings import JournalSettings, TracingSettings
from storage import BillingSettings, BuildSettings, immutable


@immutable
class Config:
    """The whole configuration; a key that is not set has its section's default."""

    artifacts: ArtifactSettings = field(default_factory=ArtifactSettings)
    billing: BillingSettings = field(default_factory=BillingSettings)
    bitbucket: BitbucketSettings = field(default_factory=BitbucketSettings)
    builds: BuildSettings = field(default_factory=BuildSettings)
    cache: CacheSettings = field(default_factory=CacheSettings)
    github: GithubAppSettings = field(default_factory=GithubAppSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    identity: IdentitySettings = field(default_factory=IdentitySettings)
    images: ImageSettings = field(default_factory=ImageSettings)
    incus: IncusSettings = field(default_factory=IncusSettings)
    ir: IrSettings = field(default_factory=IrSettings)
    jobs: JobSettings = field(default_factory=JobSettings)
    journal: JournalSettings = field(default_factory=JournalSettings)
    mail: MailSettings = field(default_factory=MailSettings)
    notifications: NotificationSettings = field(default_factory=NotificationSettings)
    payments: PaymentSettings = field(default_factory=PaymentSettings)
    pool: PoolSettings = field(default_factory=PoolSettings)
    previews: PreviewSettings = field(default_factory=PreviewSettings)
    qemu: QemuSettings = field(default_factory=QemuSettings)
    rate_limits: RateLimitSettings = field(default_factory=RateLimitSettings)
    render: RenderSettings = field(default_factory=RenderSettings)
    repositories: RepositorySettings = field(default_factory=RepositorySettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)
    source: SourceSettings = field(default_factory=SourceSettings)
    terminals: TerminalSettings = field(default_factory=TerminalSettings)
    tracing: TracingSettings = field(default_factory=TracingSettings)

    def __post_init__(self) -> None:
        RelyingParty.of(self.identity, self.http)  # raises ValueError where the two sections do not fit together
