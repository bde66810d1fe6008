"""The transition of a build to the state that its jobs' progress gives it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from actors.builds.states import roll_up

if TYPE_CHECKING:
    from actors.builds.graph import Graph
    from actors.metrics import EngineMetrics
    from storage import Build, BuildState, Storage

_log = logging.getLogger(__name__)


def moved_with_jobs(build: Build, graph: Graph, storage: Storage, metrics: EngineMetrics) -> Build:
    """Move an unfinished build to the state that follows from its jobs; return it as it is then.

    Another process may change it meanwhile: then it is returned as that process left it.
    """
    state = _rolled_up(build, graph)
    if state.terminal:  # a cancel may have been recorded whose message has not come yet
        build = storage.builds.get(build.id) or build
        state = _rolled_up(build, graph)
    if state is build.state and build.started_at is not None:
        return build
    moved = state is not build.state and storage.builds.move(build.id, build.state, state)
    current = storage.builds.get(build.id) or build
    if moved:
        _log.info("build %d of %s/%s is %s", build.number, build.organization_slug, build.pipeline_slug, state)
    if moved and state.terminal:
        metrics.built(current)
    return current


def _rolled_up(build: Build, graph: Graph) -> BuildState:
    return roll_up(graph.progress(), cancel_requested=build.cancel_requested, end_requested=build.end_requested)
