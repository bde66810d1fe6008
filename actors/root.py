"""The root supervisor: starts, stops and restarts the other actors (engine.md, "Actors")."""

from __future__ import annotations

import logging
import threading
from collections import deque
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

from actors.builds.build_supervisors import BuildSupervisors
from actors.builds.early_end import fail_build
from actors.builds.supervisor import BuildSupervisor
from actors.messages import (
    BuildCreated,
    CancelBuild,
    ChildStopped,
    Expire,
    ForBuild,
    GateDue,
    Idle,
    MakeRoom,
    PollStorage,
    Reap,
    Reschedule,
    ResyncLeases,
    RootMessage,
    TurnGiven,
)
from actors.supervision import Supervised
from storage import BuildState, immutable

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from actors.composition import ChildSpec, Composition
    from actors.metrics import EngineMetrics
    from storage import Storage

_REAP_INTERVAL = 60.0
_EXPIRE_INTERVAL = 3600.0
_POLL_INTERVAL = 1.0
_RESTARTS = 5
_RESTART_WINDOW = 60.0

_log = logging.getLogger(__name__)


class _Chore(StrEnum):
    """Housekeeping on a worker thread."""

    REAP = "reap"
    EXPIRE = "expire"
    VERIFY_LEDGER = "verify the ledger"
    MAKE_ROOM = "make room"
    RELEASE_VMS = "release VMs"
    SWEEP = "sweep"
    FAIL_BUILD = "fail a build"


@immutable
class _ChoreDone:
    """Worker: this chore has ended."""

    chore: _Chore


class RootSupervisor(Supervised[RootMessage | _ChoreDone, _Chore]):
    """Owns the long-lived actors and the supervisors of builds, and starts the housekeeping."""

    def __init__(self, composition: Composition) -> None:
        super().__init__(composition.timer, None, composition.timings.retry)
        self._composition = composition
        self._storage = composition.storage
        self._addresses = composition.addresses
        self._reaper = composition.reaper
        self._supervisors = BuildSupervisors(composition.build_supervisor)
        self._restarts: deque[float] = deque(maxlen=_RESTARTS)
        self._chores: set[_Chore] = set()
        self._newest_build = 0

    def begin(self) -> None:
        """Start the long-lived actors, and a supervisor for every build that was under way.

        Those of builds without a VM are throttled, because there may be any number of them.
        """
        self._addresses.root.hand_over(self.address)
        for actor in self._composition.supervised:
            self._composition.metrics.supervises(actor)
        self._newest_build = self._storage.builds.newest()
        rendering = {render.build_id for render in self._storage.renders.unfinished()}
        for build_id in self._storage.jobs.builds_with_vms():
            self._supervisors.start(build_id)
        for build in self._storage.builds.unfinished():
            if build.id in rendering:
                continue
            if build.state is not BuildState.SCHEDULED or build.end_requested:
                self._supervisors.start_later(build.id)
        for build_id in (*self._storage.cache.begun(), *self._storage.gates.waiting()):
            self._supervisors.start_later(build_id)
        for child in self._composition.children:
            self._start(child)
        for chore in (Reap(), Expire()):
            self._timer.tell_after(self._composition.timings.housekeeping, self.address, chore)
        self.address.post(PollStorage())

    def teardown(self) -> None:
        """Stop the others, last started first. VMs and their commands run on."""
        for child in reversed(self._composition.children):
            child.address.stop()
        self._supervisors.stop()

    def on_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Make the process end, because nothing starts another root."""
        self._composition.broken.set()
        super().on_failure(exception_type, exception_value, traceback)

    def handle(self, message: RootMessage | _ChoreDone) -> None:
        """Pass messages on to their build; supervise the children."""
        if isinstance(message, ForBuild):
            self._forward(message)
            return
        match message:
            case BuildCreated(build_id):
                self._build_created(build_id)
            case Idle():
                self._dismiss(message)
            case PollStorage():
                self._poll_storage()
            case Reschedule():
                self._addresses.pool.post(message)
            case ChildStopped(urn, transient):
                if not self._supervisors.forget_dismissed(urn):
                    self._replace(urn, transient=transient)
            case Reap() | Expire() | MakeRoom():
                self._clean_up(message)
            case _ChoreDone(chore):
                self._chore_ended(chore)
            case _:
                assert_never(message)

    def on_task_error(self, task: _Chore, error: Exception) -> None:
        """Log the error; the next round tries again."""
        super().on_task_error(task, error)
        self._chore_ended(task)

    def _clean_up(self, message: Reap | Expire | MakeRoom) -> None:
        match message:
            case Reap():
                self._start_chore(_Chore.REAP, self._reaper.reap)
            case Expire():
                self._start_chore(_Chore.EXPIRE, self._expire)
                self._start_chore(
                    _Chore.VERIFY_LEDGER, partial(verify_ledger, self._storage, self._composition.metrics)
                )
            case MakeRoom(lacking):
                self._start_chore(_Chore.MAKE_ROOM, partial(self._reaper.free_disk_space, lacking))
            case _:
                assert_never(message)

    def _expire(self) -> None:
        """Remove what is expired, once a look at the database has found no damage."""
        self._storage.integrity.look_if_due(self._ended.wait)
        if not self._ended.is_set():
            self._reaper.expire()

    def _start_chore(self, chore: _Chore, function: Callable[[], None]) -> None:
        """Run a chore on a worker thread, unless it is running already."""
        if chore not in self._chores:
            self._chores.add(chore)
            self._run(chore, function)

    def _run(self, chore: _Chore, function: Callable[[], None]) -> None:
        def run() -> _ChoreDone:
            function()
            return _ChoreDone(chore)

        self.work(chore, run)

    def _chore_ended(self, chore: _Chore) -> None:
        """Set the alarm of a chore that is done regularly."""
        self._chores.discard(chore)
        match chore:
            case _Chore.REAP:
                self._timer.tell_after(_REAP_INTERVAL, self.address, Reap())
            case _Chore.EXPIRE:
                self._timer.tell_after(_EXPIRE_INTERVAL, self.address, Expire())
            case _Chore.FAIL_BUILD:
                self._start_chore(_Chore.RELEASE_VMS, self._reaper.release_vms)
            case _Chore.VERIFY_LEDGER | _Chore.MAKE_ROOM | _Chore.RELEASE_VMS | _Chore.SWEEP:
                pass
            case _:
                assert_never(chore)

    def _poll_storage(self) -> None:
        """Read the storage for what `ci-daemon build` did in another process, and for holds that are over."""
        self._storage.clock_steps.follow()
        for child in self._composition.children:
            child.address.post(PollStorage())
        self._supervisors.start_throttled()
        self._find_created()
        self._storage.budgets.end_what_is_over()
        for build_id in self._storage.builds.to_cancel():
            if not self._supervisors.is_waiting(build_id):
                self.address.post(CancelBuild(build_id, threading.Event()))
        self._give_turns()
        for build_id in self._storage.gates.due():
            if not self._supervisors.is_waiting(build_id):
                self._supervisors.send(GateDue(build_id))
        if self._storage.holds.over():
            self._start_chore(_Chore.RELEASE_VMS, self._reaper.release_vms)
        self._timer.tell_after(_POLL_INTERVAL, self.address, PollStorage())

    def _find_created(self) -> None:
        """Look for builds of other processes, once for all; those with a gate are found as it is due."""
        newest = self._storage.builds.newest()
        if newest > self._newest_build:
            for build_id in self._storage.cache.may_hit_after(self._newest_build):
                self._supervisors.start_later(build_id)
            self._newest_build = newest
            self._addresses.pool.post(Reschedule())

    def _give_turns(self) -> None:
        """Let builds run that waited for their turn in a concurrency group."""
        given = self._storage.concurrency_groups.give_turns()
        for build_id in given:
            build = self._storage.builds.get(build_id)
            if build is not None and build.state is not BuildState.SCHEDULED:
                self._supervisors.send(TurnGiven(build_id))
            elif self._storage.cache.may_hit(build_id) or self._storage.gates.is_due(build_id):
                self._supervisors.start_later(build_id)
        if given:
            self._addresses.pool.post(Reschedule())

    def _start(self, child: ChildSpec) -> None:
        """Start a child. The pool is resynced: messages sent before its address was known are lost."""
        child.start()
        if child.address is self._addresses.pool:
            self._addresses.pool.post(ResyncLeases())

    def _build_created(self, build_id: int) -> None:
        """Wake the pool for a new build; if it may hit the cache or has a gate, start its supervisor."""
        if self._storage.cache.may_hit(build_id) or self._storage.gates.is_due(build_id):
            self._supervisors.start_later(build_id)
        self._addresses.pool.post(Reschedule())

    def _forward(self, message: ForBuild) -> None:
        """Send a message to its build's supervisor, or the cancel of a render to the render pool."""
        if isinstance(message, CancelBuild) and self._storage.renders.pending(message.build_id):
            self._addresses.renders.post(message)
        else:
            self._supervisors.send(message)

    def _dismiss(self, idle: Idle) -> None:
        """Stop an idle supervisor; if its build is over, announce it, let others run, and free its disk."""
        if idle.finished:
            self._give_turns()
            self._addresses.notifications.post(PollStorage())
        if self._supervisors.dismiss(idle) and idle.finished:
            self._run(_Chore.SWEEP, self._reaper.sweep)

    def _replace(self, urn: str, *, transient: bool) -> None:
        """Start a successor for a child that ended; it loads its state from the storage.

        A child that met a transient error did not die, and is not counted.
        """
        if child := next((each for each in self._composition.children if each.address.urn == urn), None):
            self._count_restart(child.actor, transient=transient)
            self._start(child)
        elif (build_id := self._supervisors.build_of(urn)) is not None:
            self._replace_supervisor(build_id, transient=transient)

    def _replace_supervisor(self, build_id: int, *, transient: bool) -> None:
        """Start another supervisor for a build; fail the build after too many deaths."""
        if transient:
            self._supervisors.start(build_id)
            return
        self.log.error("the supervisor of build %d died", build_id)
        if self._supervisors.restart(build_id):
            self._composition.metrics.restarted(BuildSupervisor)
            self._addresses.pool.post(Reschedule())
        else:
            self._run(_Chore.FAIL_BUILD, partial(fail_build, self._storage, build_id))

    def _count_restart(self, kind: type[Supervised[Any, Any]], *, transient: bool) -> None:
        """Count a restart; make the process end if children die faster than restarts can help."""
        if transient:
            return
        now = self._composition.clock.monotonic()
        self.log.error("the %s died and is started again", kind.__name__)
        self._composition.metrics.restarted(kind)
        if len(self._restarts) == _RESTARTS and now - self._restarts[0] < _RESTART_WINDOW:
            self._composition.broken.set()
        self._restarts.append(now)


def verify_ledger(storage: Storage, metrics: EngineMetrics) -> None:
    """Compare balances, entries and prices; log each discrepancy and set their metric. Blocks.

    No debit may be lost, and none made twice.
    """
    found = storage.ledger.verify()
    for discrepancy in found:
        _log.error("the ledger of %s is wrong: %s", discrepancy.organization_slug, discrepancy.problem)
    metrics.verified(len(found))
