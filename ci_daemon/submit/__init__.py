"""The client behind `ci-daemon submit`: pack a tree, post a build, follow it to its end."""

from __future__ import annotations

__all__: list[str] = []
