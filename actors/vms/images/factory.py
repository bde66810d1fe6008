"""The tools that make and remove images, imported on first use: most commands only list images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import on_first_use

if TYPE_CHECKING:
    from actors.vms.images.debian import Recipe
    from actors.vms.images.making import bootstrap, check_shell, pull, unpack
    from actors.vms.images.registry import PullOptions
    from actors.vms.images.tree import HashedTar, Tree, can_be_base, sweep_scratch
else:
    __getattr__ = on_first_use(__name__)
