"""The ``pending_reason`` of a build: why none of its jobs may have a VM yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import BuildState, WaitsFor

if TYPE_CHECKING:
    from storage import Build, Storage, Turn


def wait_reason(storage: Storage, build: Build) -> str | None:
    """Return why a build waits; None if it does not, or if only its jobs do."""
    if build.state.terminal:
        return None
    if build.waits_for is None:
        return _of_source(storage, build)
    if build.waits_for is WaitsFor.APPROVAL:
        return f"waiting for approval: {build.approval_reason}"
    turn = storage.concurrency_groups.turn(build)
    return None if turn is None else _of_turn(turn)


def _of_source(storage: Storage, build: Build) -> str | None:
    """Return why the source of a build is not downloaded yet; None if nothing keeps it from that."""
    if build.has_source or build.state is not BuildState.SCHEDULED:
        return None
    render = storage.renders.get(build.id)
    if render is None or render.finished_at is not None or render.source_url is None:
        return None
    if storage.build_room.has_source_room(build.organization_id):
        return None
    return "waiting for room: the sources of the organization's builds that have not ended take too many GB"


def _of_turn(turn: Turn) -> str:
    running = ", ".join(turn.running) or "its turn"
    most = "1 build" if turn.limit == 1 else f"{turn.limit} builds"
    before = f", and {turn.before} {'is' if turn.before == 1 else 'are'} before this one" if turn.before else ""
    return f'waiting for {running}: the concurrency group "{turn.group}" runs {most} at a time{before}'
