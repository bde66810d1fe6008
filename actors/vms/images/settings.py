"""The configuration section of images."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotations
from dataclasses import dataclass, field
from pathlib import Path  # noqa: TC003
from types import MappingProxyType

__all__ = ["ImageSettings"]

_MOST_GB = 10_000
_MOST_DAYS = 36_500


@dataclass(frozen=True, slots=True)
class ImageSettings:
    """Section ``[images]``: the folder of images, the image of a step, and pulls on demand.

    Several state directories may share ``dir``; the default is ``images`` in the state directory. ``default`` is the
    image of steps that name none; if it is not set, ``ci-daemon image default`` chooses it. ``map`` replaces names that
    pipelines use by names of images; ``"default"`` stands for the default image.

    With ``on_demand`` a missing image is pulled when the first job asks for it, from ``registries`` only: host names,
    with a port if it is not the usual one; short names are in docker.io. Any pipeline can use the logins of the
    service's user (``skopeo login``). A tag is pulled once; ``ci-daemon image pull`` pulls it again. A pulled image has
    at most ``max_gb`` GB, and a pull fails when the registry sends nothing for ``timeout`` seconds. An image that was
    pulled for a job is removed after ``unused_days`` days without use (0: never).
    """

    dir: Path | None = field(default=None, metadata={"example": "/var/lib/ci-daemon/images"})
    default: str | None = field(default=None, metadata={"example": "debian:12"})
    map: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    on_demand: bool = True
    registries: tuple[str, ...] = (
        "docker.io",
        "ghcr.io",
        "quay.io",
        "gcr.io",
        "public.ecr.aws",
        "mcr.microsoft.com",
        "registry.gitlab.com",
        "registry.k8s.io",
        "registry.fedoraproject.org",
        "registry.access.redhat.com",
    )
    max_gb: float = 10.0
    timeout: float = 60.0
    unused_days: int = 30

    def __post_init__(self) -> None:
        if not 0 < self.max_gb <= _MOST_GB:
            raise ValueError(f"max_gb must be above 0 and at most {_MOST_GB}")
        if not self.timeout > 0:
            raise ValueError("timeout must be above 0")
        if not 0 <= self.unused_days <= _MOST_DAYS:
            raise ValueError(f"unused_days must be from 0 to {_MOST_DAYS}; 0 is for ever")
        for each in self.registries:
            if "/" in each or not each or each != each.lower():
                raise ValueError(f'registries: "{each}" is no host name in lower case: write one like ghcr.io')

    @property
    def max_bytes(self) -> int:
        """The value of ``max_gb`` in bytes."""
        return int(self.max_gb * 2**30)
