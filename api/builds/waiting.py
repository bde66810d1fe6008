"""The reason why a build waits as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage import Build, Storage


def pending_reason(storage: Storage, build: Build) -> str | None:
    """Return why none of a build's jobs may start yet, None if they may."""
    if build.state.terminal:
        return None
    # Only here, because most builds that commands on the box show are over.
    from actors import wait_reason  # noqa: PLC0415

    return wait_reason(storage, build)
