"""The configuration section ``[render]``, with its defaults."""

from __future__ import annotations

from dataclasses import dataclass

from storage import Shape

__all__ = ["RenderSettings"]

_DAY = 86_400


@dataclass(frozen=True, slots=True)
class RenderSettings:
    """Section ``[render]``: rendering of builds that bring source and no ``pipeline_ir``.

    At most ``vms`` builds are rendered at once, each in a VM of the default image with ``cpu``, ``memory_gb`` and
    ``disk_gb``, beside the VMs of jobs. Fetching the source may take ``fetch_timeout`` seconds, loading the pipeline
    files ``timeout`` seconds. A source fetched from a URL may have ``max_source_mb``. The render of an archive is
    cached for ``cache_seconds``; with 0 every build is rendered. With ``register``, a build by repository creates the
    pipeline that its archive declares.
    """

    vms: int = 2
    fetch_timeout: float = 120.0
    timeout: float = 120.0
    max_source_mb: int = 512
    cpu: int = 1
    memory_gb: int = 2
    disk_gb: int = 10
    cache_seconds: int = 3600
    register: bool = True

    def __post_init__(self) -> None:
        for name in ("vms", "max_source_mb", "cpu", "memory_gb", "disk_gb"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        for name in ("fetch_timeout", "timeout"):
            if not 0 < getattr(self, name) <= _DAY:
                raise ValueError(f"{name} must be above 0, and at most {_DAY}")
        if not 0 <= self.cache_seconds <= 30 * _DAY:
            raise ValueError(f"cache_seconds must be from 0 to {30 * _DAY}")

    @property
    def shape(self) -> Shape:
        """The shape of each VM."""
        return Shape(self.cpu, self.memory_gb, self.disk_gb)
