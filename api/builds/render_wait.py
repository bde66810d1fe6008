"""Waits for the render of a build, in the thread of the request that created it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.errors.catalog import ApiError
from api.http.slots import RequestWait, StreamSlots

if TYPE_CHECKING:
    from collections.abc import Callable

    from api.engine import EngineInterface
    from api.http.slots import StreamSlot
    from storage import Build, Clock, Storage

_MAX_SECONDS = 600.0
_RETRY = {"Retry-After": "5"}


class RenderWait:
    """Waits for renders. Each wait holds a stream slot, so that short requests are always served."""

    def __init__(self, storage: Storage, engine: EngineInterface, slots: StreamSlots, clock: Clock) -> None:
        self._storage = storage
        self._engine = engine
        self._slots = slots
        self._clock = clock

    def slot_for_new_build(self, organization_id: int) -> StreamSlot:
        """Take a slot before a build of an organization is created. Raises ApiError ``busy``.

        It is raised at once if no render would begin, because the host is drained or its disk is nearly full: a caller
        that is refused can retry without making a second build.
        """
        obstacle = self._engine.renders_wait()
        if obstacle is not None:
            raise ApiError(
                "busy", f"no build was created, because none can be rendered now: {obstacle}", headers=_RETRY
            )
        return self.slot(organization_id)

    def slot(self, organization_id: int) -> StreamSlot:
        """Take a slot. Raises ApiError ``busy`` if there is none for the organization."""
        slot = self._slots.acquire(organization_id)
        if slot is None:
            raise ApiError(
                "busy", "too many requests are waiting for renders or reading logs; try again soon", headers=_RETRY
            )
        return slot

    def wait_for_render(self, client_gone: Callable[[], bool], build: Build, slot: StreamSlot) -> Build:
        """Return the build once its render is over; release the slot.

        Raises ApiError ``draining`` if the server closes first, or ``busy`` after 10 minutes; the build is rendered all
        the same.
        """
        waiting = RequestWait(self._clock, self._slots, client_gone)
        until = self._clock.monotonic() + _MAX_SECONDS
        try:
            with self._engine.watch(build.uuid) as watch:
                while self._storage.renders.pending(build.id):
                    waiting.wait(watch, until)
                    if waiting.over or self._clock.monotonic() >= until:
                        break
        finally:
            slot.release()
        if self._storage.renders.pending(build.id):
            obstacle = self._engine.renders_wait()
            raise ApiError(
                "draining" if self._slots.closing else "busy",
                f"build {build.number} was created but is not rendered yet{f' ({obstacle})' if obstacle else ''};"
                " get it later",
                headers=_RETRY,
                build_number=build.number,
            )
        return self._storage.builds.get(build.id) or build


class RendersElsewhere(RenderWait):
    """Renders that a service in another process begins; nobody waits for them here."""

    def __init__(self, storage: Storage, engine: EngineInterface, clock: Clock) -> None:
        super().__init__(storage, engine, StreamSlots(8), clock)

    def wait_for_render(self, client_gone: Callable[[], bool], build: Build, slot: StreamSlot) -> Build:
        """Return the build at once."""
        slot.release()
        return build
