"""Limits on one pipeline."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from functools import partial

from storage import Shape

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Section ``[ir]``: limits of one pipeline's IR. An IR that exceeds one is rejected (``invalid_ir``).

    ``max_env_bytes`` counts the UTF-8 bytes of the names and values that one job gets from the IR. ``default_shape``
    applies to what a step's ``runner_args`` leave out; ``max_shape`` is the most that they may ask for.
    """

    max_bytes: int = 4 * 1024 * 1024
    max_jobs: int = 1000
    max_command_bytes: int = 256 * 1024
    max_env_bytes: int = 64 * 1024
    default_shape: Shape = field(default_factory=Shape)
    max_shape: Shape = field(default_factory=partial(Shape, cpu=16, memory_gb=64, disk_gb=200))

    def __post_init__(self) -> None:
        for name in ("max_bytes", "max_jobs", "max_command_bytes", "max_env_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        for name in ("default_shape", "max_shape"):
            if min(astuple(getattr(self, name))) < 1:
                raise ValueError(f"{name} must be at least 1 of each")
