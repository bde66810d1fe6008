"""Every section that `ci-daemon.toml` may have. Each is defined where it is used; here they stand together."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotations
from dataclasses import dataclass, field
from pathlib import Path  # noqa: TC003
from types import MappingProxyType

from pydantic import ConfigDict, with_config

from actors import ArtifactSettings, CacheSettings, JobSettings, PoolSettings, RetentionSettings
from actors.ir import Limits
from actors.render import RenderSettings
from actors.vms.sandbox.provider import SandboxSettings
from api import HttpSettings, RateLimitSettings
from ci_daemon.journal import JournalSettings
from ci_daemon.mail import MailSettings
from ci_daemon.tracing import TracingSettings
from storage import BillingSettings

__all__ = ["Config", "ImageSettings"]


@dataclass(frozen=True, slots=True)
class ImageSettings:
    """Section ``[images]``: where images are kept, and which one a step gets.

    ``dir`` may be shared by several state directories; by default it is ``images`` in the state directory. ``default``
    is for steps that name none; where it is not set, ``ci-daemon image default`` says it. ``map`` says which image
    stands in for a name that pipelines use and this host does not have; ``"default"`` is the default one.
    """

    dir: Path | None = field(default=None, metadata={"example": "/var/lib/ci-daemon/images"})
    default: str | None = field(default=None, metadata={"example": "debian:12"})
    map: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({"ubuntu:24.04": "default"}))


@with_config(ConfigDict(extra="forbid", strict=True))
@dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration; what nobody sets has the default of its section."""

    artifacts: ArtifactSettings = field(default_factory=ArtifactSettings)
    billing: BillingSettings = field(default_factory=BillingSettings)
    cache: CacheSettings = field(default_factory=CacheSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    images: ImageSettings = field(default_factory=ImageSettings)
    ir: Limits = field(default_factory=Limits)
    jobs: JobSettings = field(default_factory=JobSettings)
    journal: JournalSettings = field(default_factory=JournalSettings)
    mail: MailSettings = field(default_factory=MailSettings)
    pool: PoolSettings = field(default_factory=PoolSettings)
    rate_limits: RateLimitSettings = field(default_factory=RateLimitSettings)
    render: RenderSettings = field(default_factory=RenderSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)
    tracing: TracingSettings = field(default_factory=TracingSettings)
