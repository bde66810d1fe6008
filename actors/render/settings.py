"""The configuration section of renders, with its defaults."""

from __future__ import annotations

from dataclasses import dataclass

from storage import Shape

__all__ = ["RenderSettings"]

_DAY = 86_400


@dataclass(frozen=True, slots=True)
class RenderSettings:
    """Section ``[render]``: how builds get their plan that bring source and no ``pipeline_ir``.

    So many are rendered at once as ``vms`` says, in VMs beside those of jobs, of ``cpu``, ``memory_gb`` and ``disk_gb``
    each, from the default image. Fetching the source has ``fetch_timeout`` seconds, loading the pipeline files
    ``timeout``. A source that is fetched from elsewhere may have ``max_source_mb``. What an archive is rendered to
    serves for ``cache_seconds``; 0 renders each build anew. ``register`` lets a build by repository make the pipeline
    that its archive declares.
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
        """Return what each VM has."""
        return Shape(self.cpu, self.memory_gb, self.disk_gb)
