"""Waits for the render of a build, in the thread of the request that created it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.errors import ApiError
from api.follow import Patience

if TYPE_CHECKING:
    import falcon

    from api.engine import Engine
    from api.streams import Place, Streams
    from storage import Build, Clock, Storage

__all__ = ["RenderWait"]

_LONGEST = 600.0
_RETRY = {"Retry-After": "5"}


class RenderWait:
    """Waits for renders. Each wait holds a stream slot, so that short requests are always served."""

    def __init__(self, storage: Storage, engine: Engine, streams: Streams, clock: Clock) -> None:
        self._storage = storage
        self._engine = engine
        self._streams = streams
        self._clock = clock

    def begin(self) -> Place:
        """Take a slot before there is a build to wait for. Raises ApiError ``busy``.

        It is raised at once if no render would begin, because the host is drained or its disk is nearly full: a caller
        that is refused can retry without making a second build.
        """
        obstacle = self._engine.renders_wait()
        if obstacle is not None:
            raise ApiError("busy", f"no build is made, as none can be rendered: {obstacle}", headers=_RETRY)
        return self.place()

    def place(self) -> Place:
        """Take a slot. Raises ApiError ``busy`` if there is none."""
        place = self._streams.take()
        if place is None:
            raise ApiError("busy", "too many requests wait for renders or read logs", headers=_RETRY)
        return place

    def rendered(self, req: falcon.Request, build: Build, place: Place) -> Build:
        """Return the build once its render is over; free the slot.

        Raises ApiError ``draining`` if the server closes first, or ``busy`` after 10 minutes; the build is rendered all
        the same.
        """
        patience = Patience.of(req, self._clock, self._streams)
        until = self._clock.monotonic() + _LONGEST
        try:
            with self._engine.watch(build.uuid) as watch:
                while self._storage.renders.pending(build.id):
                    patience.wait(watch, until)
                    if patience.over or self._clock.monotonic() >= until:
                        break
        finally:
            place.free()
        if self._storage.renders.pending(build.id):
            obstacle = self._engine.renders_wait()
            raise ApiError(
                "draining" if self._streams.closing else "busy",
                f"build {build.number} is made and not rendered yet{f', {obstacle}' if obstacle else ''}:"
                " look at it later",
                headers=_RETRY,
                build_number=build.number,
            )
        return self._storage.builds.get(build.id) or build
