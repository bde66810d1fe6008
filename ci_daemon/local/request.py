"""The build that the caller of `ci-daemon run` asks for."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from ci_daemon.submit import default_slug, folder_slug
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@immutable
class Request:
    """The build that the caller asks for.

    Without ``ir`` the pipeline files of the tree are rendered. Without ``steps`` all of them are built. The VM of the
    step ``shell`` is kept if it fails. With ``strict_shell`` commands end at their first failure, whatever the
    environment sets.
    """

    tree: Path
    slug: str | None = None
    ir: str | None = None
    steps: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    shell: str | None = None
    strict_shell: bool = False
    inputs: Mapping[str, str] = field(default_factory=dict)

    @property
    def pipeline(self) -> str:
        """The slug of its pipeline."""
        return self.slug or (default_slug(self.tree) if self.ir is None else folder_slug(self.tree))
