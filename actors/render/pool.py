"""The render pool: renders builds, a few at a time (pipeline-ir.md, "Rendering")."""

from __future__ import annotations

from collections import Counter
from functools import cache, partial
from typing import TYPE_CHECKING, assert_never

from actors.messages import ArchiveRendered, CancelBuild, Drain, PollStorage, RenderPoolMessage, Reschedule
from actors.render.vm import release
from actors.scheduling.pending_reason import admission_block
from actors.supervision import Supervised
from storage import BuildErrorCode, immutable

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.parts import VmParts
    from actors.render.rendering import Rendering
    from actors.render.vm import WaitingVm
    from storage import Lease, Render


@immutable
class _RenderBuild:
    """Task: render a build."""

    build_id: int

    def __str__(self) -> str:
        return f"render build {self.build_id}"


@immutable
class _DestroyVm:
    """Task: destroy the VM of an earlier render."""

    uuid: str

    def __str__(self) -> str:
        return f"destroy VM {self.uuid}"


@immutable
class _MakeVm:
    """Task: make the VM that waits for the next render."""

    def __str__(self) -> str:
        return "make the VM of the next render"


@immutable
class _DiscardVm:
    """Task: destroy the VM that waits for the next render."""

    def __str__(self) -> str:
        return "destroy the VM of the next render"


@immutable
class _Rendered:
    """Worker: the render of this build has ended."""

    build_id: int


@immutable
class _Idle:
    """Timer: some time has gone by since a render ended."""


_Message = RenderPoolMessage | _Rendered | _Idle
_Task = _RenderBuild | _DestroyVm | _MakeVm | _DiscardVm


class RenderPool(Supervised[_Message, _Task]):
    """Renders builds in VMs of its own, so that no build waits for its plan behind a queue of jobs.

    The queue is the storage: the unfinished renders. A render that an earlier pool began starts again. After a render,
    a VM is made that waits for the next one.
    """

    def __init__(self, parts: VmParts, *, rendering: Callable[[Render], Rendering], waiting: WaitingVm) -> None:
        super().__init__(parts.timer, parts.addresses.root, parts.timings.retry)
        self._root = parts.addresses.root
        self._pool = parts.addresses.pool
        self._storage = parts.storage
        self._providers = parts.providers
        self._live_settings = parts.live_settings
        self._rendering = rendering
        self._waiting = waiting
        self._watchers = parts.watchers
        self._timings = parts.timings
        self._running: dict[int, Rendering] = {}
        self._draining = False

    def begin(self) -> None:
        """Destroy the VMs of an earlier pool, which are not used again, and start the waiting renders."""
        for lease in self._storage.leases.live():
            if lease.build_id is not None:
                self.work(_DestroyVm(lease.uuid), partial(self._release, lease))
        self._start_waiting()

    def _release(self, lease: Lease) -> None:
        release(self._storage, self._providers.of(lease), lease)

    def teardown(self) -> None:
        """Abandon the renders; their builds stay as they are, for a successor."""
        for rendering in self._running.values():
            rendering.abandon()
        self.work(_DiscardVm(), self._waiting.discard)

    def handle(self, message: _Message) -> None:
        """Start, finish and cancel renders."""
        match message:
            case Reschedule():
                self._start_waiting()
            case PollStorage():
                self._start_waiting()
                if self._waiting.is_there and not self._may_wait:
                    self.work(_DiscardVm(), self._waiting.discard)
            case CancelBuild(build_id):
                self._cancel(message)
                if build_id in self._running:
                    self._running[build_id].abandon()
            case Drain():
                self._draining = True
                self.work(_DiscardVm(), self._waiting.close)
            case _Rendered(build_id):
                self._forget(build_id)
                self._timer.tell_after(self._timings.rendered, self.address, _Idle())
            case ArchiveRendered():
                self._timer.tell_after(self._timings.rendered, self.address, _Idle())
            case _Idle():
                self._make_vm()
            case _:
                assert_never(message)

    def _make_vm(self) -> None:
        """Let a VM wait for the next render, if none runs now, or several organizations render."""
        if self._may_wait and (not self._running or self._waiting.is_shared):
            self.work(_MakeVm(), self._waiting.make)

    @property
    def _may_wait(self) -> bool:
        """True if a VM may wait for the next render."""
        return not self._draining and self._waiting.is_wanted and not self._is_blocked()

    def on_task_error(self, task: _Task, error: Exception) -> None:
        """Fail a build that could not be rendered; leave a VM that cannot be destroyed to the reaper."""
        match task:
            case _RenderBuild(build_id):
                self.log.error("build %d could not be rendered: %s", build_id, error, exc_info=error)
                self._storage.renders.refuse(build_id, BuildErrorCode.INTERNAL_ERROR, f"the service failed: {error}")
                self._forget(build_id)
            case _MakeVm():
                self.log.warning("no VM waits for the next render: %s", error)
            case _DestroyVm() | _DiscardVm():
                self.log.warning("the VM of an earlier render cannot be destroyed and is left to the reaper: %s", error)
            case _:
                assert_never(task)

    def _start_waiting(self) -> None:
        """Start waiting renders, up to the limits for all and for one organization.

        First comes the organization with the fewest running renders, and of its builds the oldest.
        """
        if self._draining:
            return
        waiting = [each for each in self._storage.renders.due() if each.build_id not in self._running]
        if not waiting or self._is_blocked():
            return
        settings, busy = self._live_settings.now.render, self._busy()
        has_room = cache(self._storage.build_room.has_source_room)
        while len(self._running) < settings.vms:
            free = [
                each
                for each in waiting
                if busy[each.organization_id] < settings.vms_of_one
                and (each.source_url is None or has_room(each.organization_id))
            ]
            if not free:
                return
            render = min(free, key=lambda each: (busy[each.organization_id], each.build_id))
            waiting.remove(render)
            busy[render.organization_id] += 1
            self._begin(render)

    def _busy(self) -> Counter[int]:
        """Count the running renders of each organization."""
        return Counter(rendering.organization_id for rendering in self._running.values())

    def _is_blocked(self) -> bool:
        """Tell whether the host starts nothing now; if its disk is short, ask the lease pool to free space."""
        block = admission_block(self._storage, self._live_settings.now.pool.low_disk_gb)
        if block is not None and block.lacking:
            self._pool.post(Reschedule())
        return block is not None

    def _begin(self, render: Render) -> None:
        rendering = self._running[render.build_id] = self._rendering(render)

        def run() -> _Rendered:
            rendering.run()
            return _Rendered(render.build_id)

        self.work(_RenderBuild(render.build_id), run)

    def _cancel(self, cancel: CancelBuild) -> None:
        """Cancel a build without a plan; if it was planned meanwhile, leave that to its supervisor."""
        storage = self._storage
        if storage.renders.cancel(cancel.build_id):
            build = storage.builds.get(cancel.build_id)
            if build is not None:
                self._watchers.notify(build.uuid)
            cancel.recorded.set()
        else:
            self._root.post(cancel)

    def _forget(self, build_id: int) -> None:
        self._running.pop(build_id, None)
        self._start_waiting()
