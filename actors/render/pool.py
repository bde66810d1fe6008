"""The render pool: renders builds, a few at a time (pipeline-ir.md, "Rendering")."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from actors.messages import CancelBuild, Demand, Drain, Look, Stirred, TaskDone, TaskFailed
from actors.render.rendering import Rendering
from actors.render.vm import release
from actors.runtime import Runtime, post
from actors.standstill import standstill
from actors.supervision import Supervised

if TYPE_CHECKING:
    from storage import Render

__all__ = ["RenderPool"]

_DESTROY = "destroy a VM"


class RenderPool(Supervised):
    """Renders builds in VMs of its own, so that no build waits for its plan behind a queue of jobs.

    The queue is the storage: the unfinished renders. A render that an earlier pool began starts again.
    """

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime.timer, runtime.crew.root)
        self._runtime = runtime
        self._under_way: dict[int, Rendering] = {}
        self._draining = False

    def begin(self) -> None:
        """Destroy the VMs of an earlier pool, which are not used again, and start the waiting renders."""
        for lease in self._runtime.storage.leases.live():
            if lease.build_id is not None:
                self.work(_DESTROY, partial(release, self._runtime.storage, self._runtime.provider, lease))
        self._serve()

    def teardown(self) -> None:
        """Abandon the renders; their builds stay as they are, for a successor."""
        for rendering in self._under_way.values():
            rendering.abandon()

    def handle(self, message: object) -> None:
        """Start, finish and cancel renders."""
        match message:
            case Demand() | Look():
                self._serve()
            case CancelBuild(build_id):
                self._cancel(message)
                if build_id in self._under_way:
                    self._under_way[build_id].abandon()
            case Drain():
                self._draining = True
            case TaskDone(task) if task != _DESTROY:
                self._over(int(task))
            case TaskFailed(task, error) if task == _DESTROY:
                self.log.warning("the VM of an earlier render cannot be destroyed, the reaper will: %s", error)
            case TaskFailed(task, error):
                self.log.error("build %s could not be rendered: %s", task, error, exc_info=error)
                self._runtime.storage.renders.refuse(int(task), "internal_error", f"the service failed: {error}")
                self._over(int(task))

    def _serve(self) -> None:
        """Start renders while there is room.

        First comes the organization with the fewest running renders, and of its builds the oldest.
        """
        if self._draining:
            return
        waiting = [each for each in self._runtime.storage.renders.unfinished() if each.build_id not in self._under_way]
        if not waiting or self._stands_still():
            return
        while waiting and len(self._under_way) < self._runtime.settings.render.vms:
            busy = Counter(rendering.organization_id for rendering in self._under_way.values())
            render = min(waiting, key=lambda each: (busy[each.organization_id], each.build_id))
            waiting.remove(render)
            self._begin(render)

    def _stands_still(self) -> bool:
        """Tell whether the host starts nothing now; if its disk is short, ask the lease pool for room."""
        still = standstill(self._runtime.storage, self._runtime.settings.pool.low_disk_gb)
        if still is not None and still.lacking:
            post(self._runtime.crew.pool, Demand())
        return still is not None

    def _begin(self, render: Render) -> None:
        rendering = self._under_way[render.build_id] = Rendering(self._runtime, render)
        self.work(str(render.build_id), rendering.run)

    def _cancel(self, cancel: CancelBuild) -> None:
        """Cancel a build without a plan; if it was planned meanwhile, leave that to its supervisor."""
        storage = self._runtime.storage
        if storage.renders.cancel(cancel.build_id):
            build = storage.builds.get(cancel.build_id)
            if build is not None:
                post(self._runtime.crew.hub, Stirred(build.uuid))
            cancel.recorded.set()
        else:
            post(self._parent, cancel)

    def _over(self, build_id: int) -> None:
        self._under_way.pop(build_id, None)
        self._serve()
