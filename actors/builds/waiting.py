"""The ``pending_reason`` of a build: why none of its jobs may have a VM yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import WaitsFor

if TYPE_CHECKING:
    from storage import Build, Storage, Turn

__all__ = ["wait_reason"]


def wait_reason(storage: Storage, build: Build) -> str | None:
    """Return why a build waits; None if it does not, or if only its jobs do."""
    if build.state.terminal or build.waits_for is None:
        return None
    if build.waits_for is WaitsFor.APPROVAL:
        return f"waiting for approval: {build.approval_reason}"
    turn = storage.concurrency_groups.turn(build)
    return None if turn is None else _of_turn(turn)


def _of_turn(turn: Turn) -> str:
    running = ", ".join(turn.running) or "its turn"
    most = "1 build" if turn.limit == 1 else f"{turn.limit} builds"
    before = f", and {turn.before} {'is' if turn.before == 1 else 'are'} before this one" if turn.before else ""
    return f'waiting for {running}: the concurrency group "{turn.group}" runs {most} at a time{before}'
