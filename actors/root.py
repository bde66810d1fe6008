"""The root supervisor: starts, stops and restarts the other actors (engine.md, "Actors")."""

from __future__ import annotations

import threading
from collections import Counter, deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from actors.bookkeeping import verify_ledger
from actors.build import BuildSupervisor
from actors.giving_up import give_up_build
from actors.hub import LogHub
from actors.images import ImagePuller
from actors.messages import (
    CancelBuild,
    ChildStopped,
    Demand,
    Expire,
    ForBuild,
    Granted,
    Idle,
    Look,
    MakeRoom,
    Planted,
    Reap,
    Recount,
    TaskDone,
    TaskFailed,
)
from actors.pool import LeasePool
from actors.reaper import expire, let_go, make_room, reap, sweep
from actors.render.pool import RenderPool
from actors.rounds import Rounds
from actors.runtime import Address, Runtime, post
from actors.supervision import Supervised
from storage import BuildState

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["RootSupervisor"]

_REAP_INTERVAL = 60.0
_EXPIRE_INTERVAL = 3600.0
_LOOK_INTERVAL = 1.0
_SUPERVISOR_RESTARTS = 3
_RESTARTS = 5
_RESTART_WINDOW = 60.0


@dataclass(slots=True)
class _Child:
    """A running build supervisor, and how many messages root has sent it."""

    address: Address
    sent: int = 0


class RootSupervisor(Supervised):
    """Owns the addresses of all long-lived actors, and starts build supervisors when they are needed.

    A build whose jobs all wait needs none: it is rows in the storage until a lease or a cancel comes. A supervisor with
    nothing running says so and is stopped, unless a message to it is still on its way. At most 16 supervisors run only
    for housekeeping (`Rounds`).
    """

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime.timer, None)
        self._runtime = runtime
        self._builds: dict[int, _Child] = {}
        self._rounds = Rounds()
        self._leaving: dict[str, Address] = {}
        self._deaths: Counter[int] = Counter()
        self._restarts: deque[float] = deque(maxlen=_RESTARTS)
        self._chores: set[str] = set()

    def begin(self) -> None:
        """Start the long-lived actors, and a supervisor for every build that was under way.

        Builds without a VM take turns, because there may be any number of them.
        """
        crew, jobs = self._runtime.crew, self._runtime.storage.jobs
        crew.root = self.actor_ref
        crew.hub = LogHub.start(self._runtime.timer, crew)
        rendering = {render.build_id for render in self._runtime.storage.renders.unfinished()}
        for build_id in jobs.builds_with_vms():
            self._supervise(build_id)
        for build in self._runtime.storage.builds.unfinished():
            if build.id in rendering:
                continue
            if build.state is not BuildState.SCHEDULED or build.given_up:
                self._visit(build.id)
        for build_id in self._runtime.storage.cache.begun():
            self._visit(build_id)
        crew.images = ImagePuller.start(self._runtime)
        self._start_pool()
        crew.renders = RenderPool.start(self._runtime)
        post(self.actor_ref, Reap())
        post(self.actor_ref, Expire())
        post(self.actor_ref, Look())

    def teardown(self) -> None:
        """Stop the others, last started first. VMs and their commands run on."""
        crew = self._runtime.crew
        supervisors = (*(child.address for child in self._builds.values()), *self._leaving.values())
        for address in (crew.renders, crew.pool, crew.images, *supervisors, crew.hub):
            if address is not None and address.is_alive():
                address.stop(block=True)

    def on_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Make the process end, because nothing starts another root."""
        self._runtime.give_up.set()
        super().on_failure(exception_type, exception_value, traceback)

    def handle(self, message: object) -> None:
        """Pass messages on to their build; supervise the children."""
        if isinstance(message, CancelBuild) and self._runtime.storage.renders.pending(message.build_id):
            post(self._runtime.crew.renders, message)
            return
        if isinstance(message, ForBuild):
            self._pass_on(message)
            return
        match message:
            case Planted(build_id):
                self._planted(build_id)
            case Idle():
                self._dismiss(message)
            case Look():
                self._look()
            case Demand():
                post(self._runtime.crew.pool, message)
            case ChildStopped(urn, held_up):
                if self._leaving.pop(urn, None) is None:
                    self._replace(urn, held_up=held_up)
            case TaskDone() | TaskFailed():
                self._after_task(message)
            case _:
                self._clean_up(message)

    def _clean_up(self, message: object) -> None:
        """Start a clean-up chore on a worker thread."""
        match message:
            case Reap():
                self._take_up("reap", reap)
            case Expire():
                self._take_up("expire", expire)
                self._take_up("verify the ledger", verify_ledger)
            case MakeRoom(lacking):
                self._take_up("make room", partial(make_room, lacking=lacking))

    def _take_up(self, chore: str, function: Callable[[Runtime], None]) -> None:
        """Run a chore on a worker thread, unless it is running already."""
        if chore not in self._chores:
            self._chores.add(chore)
            self.work(chore, partial(function, self._runtime))

    def _look(self) -> None:
        """Poll the storage for cancels by `ci-daemon build cancel` and for holds that are over."""
        post(self._runtime.crew.pool, Look())
        post(self._runtime.crew.images, Look())
        post(self._runtime.crew.renders, Look())
        self._go_round()
        for build_id in self._runtime.storage.builds.to_cancel():
            if build_id not in self._rounds:
                post(self.actor_ref, CancelBuild(build_id, threading.Event()))
        if self._runtime.storage.holds.over():
            self._take_up("let go of VMs", let_go)
        self._runtime.timer.tell_after(_LOOK_INTERVAL, self.actor_ref, Look())

    def _after_task(self, message: TaskDone | TaskFailed) -> None:
        if isinstance(message, TaskFailed):
            self.log.error("%s failed: %s", message.task, message.error, exc_info=message.error)
        self._chores.discard(message.task)
        match message.task:
            case "reap":
                self._runtime.timer.tell_after(_REAP_INTERVAL, self.actor_ref, Reap())
            case "expire":
                self._runtime.timer.tell_after(_EXPIRE_INTERVAL, self.actor_ref, Expire())
            case "give up":
                self._take_up("let go of VMs", let_go)

    def _start_pool(self) -> None:
        """Start the pool, and resync it: messages sent before its address was known are lost."""
        self._runtime.crew.pool = LeasePool.start(self._runtime)
        post(self._runtime.crew.pool, Recount())

    def _planted(self, build_id: int) -> None:
        """Wake the pool for a new build; if the build may hit the cache, start its supervisor in turn."""
        if self._runtime.storage.cache.may_hit(build_id):
            self._visit(build_id)
        post(self._runtime.crew.pool, Demand())

    def _pass_on(self, message: ForBuild) -> None:
        """Send a message to its build's supervisor: started at once for a lease, in turn for all else."""
        if isinstance(message, Granted) and message.build_id not in self._builds:
            self._supervise(message.build_id)
        if message.build_id not in self._builds:
            self._visit(message.build_id, message)
            return
        self._send(message)
        if isinstance(message, Granted):
            self._end_visit(message.build_id)

    def _send(self, message: ForBuild) -> None:
        child = self._builds[message.build_id]
        child.sent += 1
        post(child.address, message)

    def _visit(self, build_id: int, *messages: ForBuild) -> None:
        """Start a supervisor, when its turn comes, for a build of which nothing runs."""
        if build_id not in self._builds:
            self._rounds.join(build_id, *messages)
            self._go_round()

    def _end_visit(self, build_id: int) -> None:
        self._rounds.leave(build_id)
        self._go_round()

    def _go_round(self) -> None:
        while (build_id := self._rounds.next()) is not None:
            come = build_id not in self._builds
            if come:
                self._supervise(build_id)
            for message in self._rounds.begin(build_id):
                self._send(message)
            if not come:
                self._rounds.leave(build_id)

    def _supervise(self, build_id: int) -> None:
        self._builds[build_id] = _Child(BuildSupervisor.start(self._runtime, build_id))

    def _dismiss(self, idle: Idle) -> None:
        """Stop an idle supervisor; if its build is over, free what the build kept on disk.

        Ignored if it comes from a predecessor, or if a message to the supervisor is still on its way.
        """
        child = self._builds.get(idle.build_id)
        if child is None or child.address.actor_urn != idle.urn or child.sent != idle.received:
            return
        del self._builds[idle.build_id]
        self._leaving[idle.urn] = child.address
        child.address.stop(block=False)
        self._end_visit(idle.build_id)
        if idle.finished:
            del self._deaths[idle.build_id]
            self.work("sweep", lambda: sweep(self._runtime))

    def _replace(self, urn: str, *, held_up: bool) -> None:
        """Start a successor for a child that ended; it loads its state from the storage.

        A child that was held up did not die, and is not counted.
        """
        crew = self._runtime.crew
        if crew.hub is not None and crew.hub.actor_urn == urn:
            self._count_restart(LogHub, held_up=held_up)
            crew.hub = LogHub.start(self._runtime.timer, crew)
        elif crew.pool is not None and crew.pool.actor_urn == urn:
            self._count_restart(LeasePool, held_up=held_up)
            self._start_pool()
        elif crew.images is not None and crew.images.actor_urn == urn:
            self._count_restart(ImagePuller, held_up=held_up)
            crew.images = ImagePuller.start(self._runtime)
        elif crew.renders is not None and crew.renders.actor_urn == urn:
            self._count_restart(RenderPool, held_up=held_up)
            crew.renders = RenderPool.start(self._runtime)
        else:
            for build_id, child in self._builds.items():
                if child.address.actor_urn == urn:
                    self._replace_supervisor(build_id, held_up=held_up)
                    return

    def _replace_supervisor(self, build_id: int, *, held_up: bool) -> None:
        """Start another supervisor for a build; fail the build after too many deaths."""
        if held_up:
            self._supervise(build_id)
            return
        self.log.error("the supervisor of build %d died", build_id)
        self._deaths[build_id] += 1
        if self._deaths[build_id] <= _SUPERVISOR_RESTARTS:
            self._runtime.observations.restarted(BuildSupervisor.__name__)
            self._supervise(build_id)
            post(self._runtime.crew.pool, Demand())
        else:
            del self._builds[build_id]
            self._end_visit(build_id)
            self.work("give up", lambda: give_up_build(self._runtime, build_id))

    def _count_restart(self, kind: type[Supervised], *, held_up: bool) -> None:
        """Count a restart; make the process end if children die faster than restarts can help."""
        if held_up:
            return
        now = self._runtime.clock.monotonic()
        self.log.error("the %s died and is started again", kind.__name__)
        self._runtime.observations.restarted(kind.__name__)
        if len(self._restarts) == _RESTARTS and now - self._restarts[0] < _RESTART_WINDOW:
            self._runtime.give_up.set()
        self._restarts.append(now)
