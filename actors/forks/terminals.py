"""Terminals on forks of jobs' disks: opened, looked at, typed into, and ended.

The shell and what it shows are the VM's (``launcher/terminal.py``), and whose it is says the storage, so that a
terminal outlives this process: the next one goes on with it. Each request is checked by its door; beside that, a thread
looks each second whether the users of open terminals still may have them.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, TypeVar

from actors import vms
from actors.builds.attempt.vm import Abandoned
from actors.builds.outcome import DiskUse, disk_failure, seconds_to_full
from actors.forks.forks import is_guarded
from storage import DatabaseUnavailable, ForkTerminal, Role, Scope, immutable

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.builds.attempt.vm import VmConnection
    from actors.forks.forks import Forks
    from actors.settings import TerminalSettings
    from storage import Build, Caller, Job, Masker, Storage

T = TypeVar("T")

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
_BEAT_SECONDS = 10.0
"""The seconds between two notes that somebody has typed."""

_QUIET_SECONDS = 0.05
"""The time for which what may begin a secret waits for the rest of it."""

_KIND = "xterm-256color"

_LOST = "its VM is gone"
_CLOSED = "it was closed"
_IDLE = "nobody has typed for too long, or its time or its budget was up"
_NOT_ALLOWED = "who opened it may not use it any more"
_FULL = "it filled the disk of its VM, or the host's"


class TooManyTerminals(Exception):
    """No terminal can be opened beside those that are open; the message says whose they are."""


class TerminalGone(Exception):
    """A terminal has ended; the message says why."""


@immutable
class Shown:
    """A part of what a terminal shows, without secrets; its last byte has the number ``end``.

    ``left_out`` bytes before it are not kept any more. ``exit_code`` is that of the shell once it has ended; then no
    other part follows.
    """

    data: bytes
    end: int
    left_out: int = 0
    exit_code: int | None = None


class _Way:
    """The way to the VM of a terminal, for any thread, and what hides its secrets."""

    def __init__(self, link: VmConnection, masker: Masker) -> None:
        self.link = link
        self.masker = masker
        self.look: Look | None = None
        self.beat = 0.0
        self.use: tuple[float, DiskUse] | None = None
        self._connecting = threading.Lock()

    def connection(self) -> vms.Connection:
        """Return the connection, which is made anew if it was lost. Raises VmError and Abandoned."""
        with self._connecting:
            return self.link.connected()


class Look:
    """Somebody's look at a terminal, in one thread. A later one takes its place."""

    def __init__(self, screen: vms.Screen, masker: Masker, number: int) -> None:
        self.typed = screen.typed
        self.replaced = False
        self._screen = screen
        self._masker = masker
        self._number = number
        self._undecided = b""

    def part(self, seconds: float) -> Shown | None:
        """Return the next part; None if nothing comes within so many seconds. Raises VmError."""
        if self._undecided:
            seconds = min(seconds, _QUIET_SECONDS)
        part = self._screen.part(seconds)
        if part is None:
            return self._decided(b"", more=False) if self._undecided else None
        if part.exit_code is not None:
            last = self._decided(b"", more=False)
            return Shown(last.data, last.end, exit_code=part.exit_code)
        if part.left_out:
            self._undecided, self._number = b"", part.end
            return Shown(b"", part.end, part.left_out)
        return self._decided(part.data, more=True)

    def close(self) -> None:
        """Look away. Idempotent."""
        self._screen.close()

    def _decided(self, data: bytes, *, more: bool) -> Shown:
        output = self._undecided + data
        shown, taken = self._masker.mask(output, more=more)
        self._number += taken
        self._undecided = output[taken:]
        return Shown(bytes(shown), self._number)


class Terminals:
    """Opens terminals, leads to those that are open, and ends them. Safe in any thread; its calls block.

    Calls raise TerminalGone for one that has ended, and VmError.
    """

    def __init__(self, storage: Storage, forks: Forks, settings: Callable[[], TerminalSettings]) -> None:
        self._storage = storage
        self._forks = forks
        self._settings = settings
        self._lock = threading.Lock()
        self._ways: dict[str, _Way] = {}
        self._ending: set[str] = set()
        self._watcher: threading.Thread | None = None
        self._stopped = threading.Event()

    def start(self) -> None:
        """Go on with the terminals that an earlier process has left."""
        if self._storage.terminals.open():
            self._watch()

    def stop(self) -> None:
        """Leave the terminals to the next process."""
        self._stopped.set()
        with self._lock:
            watcher, ways = self._watcher, list(self._ways.values())
        if watcher is not None:
            watcher.join()
        for way in ways:
            way.link.disconnect()

    def open(
        self, build: Build, job: Job, caller: Caller, *, before: bool, columns: int, rows: int, budget_id: int | None
    ) -> ForkTerminal:
        """Open a terminal on a fork of a job's disk.

        Raises TooManyTerminals, and what `Forks.make` raises.
        """

        def hold(hold_id: int) -> None:
            self._require_place(build.organization_id, caller)
            self._storage.terminals.add(hold_id, caller.user.id, caller.token_id, before=before)

        fork = self._forks.make(
            build,
            job,
            before=before,
            seconds=self._settings().idle_seconds,
            opened_by=caller.user.email,
            budget_id=budget_id,
            held=hold,
        )
        way = _Way(fork.link, fork.masker)
        try:
            variables = {**fork.variables, "TERM": _KIND}
            vms.open_terminal(way.connection(), vms.TerminalSpec(variables, columns, rows))
        except BaseException:
            fork.link.disconnect()
            self._forks.end(fork.lease)
            raise
        with self._lock:
            self._ways[fork.lease.uuid] = way
        self._watch()
        return self._now(fork.lease.uuid)

    def look(self, terminal: ForkTerminal, number: int) -> Look:
        """Begin to look at a terminal, from the byte ``number`` on; an earlier look is replaced."""
        way = self._way(terminal)
        look = Look(self._asked(terminal, lambda: vms.Screen(way.connection(), number)), way.masker, number)
        with self._lock:
            before, way.look = way.look, look
        if before is not None:
            before.replaced = True
        return look

    def type_in(self, terminal: ForkTerminal, number: int, data: bytes) -> int:
        """Type into a terminal; return how many bytes were taken in all (`vms.type_in`)."""
        way = self._way(terminal)
        taken = self._asked(terminal, lambda: vms.type_in(way.connection(), number, data))
        self._beat(terminal, way)
        return taken

    def resize(self, terminal: ForkTerminal, columns: int, rows: int) -> None:
        """Set the size of a terminal in characters."""
        way = self._way(terminal)
        self._asked(terminal, lambda: vms.resize(way.connection(), columns, rows))

    def close(self, terminal: ForkTerminal, why: str = _CLOSED) -> None:
        """End a terminal, and with it its VM; what fails is left to the reaper."""
        with self._lock:
            if terminal.uuid in self._ending:
                return
            self._ending.add(terminal.uuid)
            way = self._ways.pop(terminal.uuid, None)
        try:
            self._storage.terminals.note_end(terminal.hold_id, why)
            if way is not None:
                way.link.abandon()
            lease = self._storage.leases.get(terminal.lease_id)
            if lease is not None and lease.finished_at is None:
                self._forks.end(lease)
        finally:
            with self._lock:
                self._ending.discard(terminal.uuid)

    def gone(self, uuid: str) -> str | None:
        """Return why a terminal has ended, or is about to; None if it is open."""
        terminal = self._now(uuid)
        if terminal.why_ended is not None:
            return terminal.why_ended
        return None if terminal.finished_at is None else _IDLE

    def _now(self, uuid: str) -> ForkTerminal:
        terminal = self._storage.terminals.by_uuid(uuid)
        if terminal is None:
            raise TerminalGone(_LOST)
        return terminal

    def _asked(self, terminal: ForkTerminal, ask: Callable[[], T]) -> T:
        """Ask the VM of a terminal. Raises TerminalGone if it has ended meanwhile, and VmError."""
        try:
            return ask()
        except (vms.VmError, Abandoned) as error:
            if (why := self.gone(terminal.uuid)) is not None or isinstance(error, vms.VmLost | Abandoned):
                raise TerminalGone(why or _LOST) from error
            raise

    def _require_place(self, organization_id: int, caller: Caller) -> None:
        """Raise TooManyTerminals unless there may be another one, in a transaction."""
        settings, there = self._settings(), self._storage.terminals.open()
        if len(there) >= settings.most:
            raise TooManyTerminals(f"{len(there)} terminals are open on this service, and there may be no more")
        if sum(each.organization_id == organization_id for each in there) >= settings.most_per_organization:
            raise TooManyTerminals("the organization has as many terminals open as it may: close one")
        if sum(each.user_id == caller.user.id for each in there) >= settings.most_per_user:
            raise TooManyTerminals("you have as many terminals open as you may: close one")

    def _way(self, terminal: ForkTerminal) -> _Way:
        """Return the way to a terminal, which an earlier process may have opened. Raises TerminalGone."""
        if (why := self.gone(terminal.uuid)) is not None:
            raise TerminalGone(why)
        with self._lock:
            if (way := self._ways.get(terminal.uuid)) is not None:
                return way
            lease, job = self._storage.leases.get(terminal.lease_id), self._storage.jobs.get(terminal.job_id)
            build = None if job is None else self._storage.builds.get(job.build_id)
            if lease is None or job is None or build is None:
                raise TerminalGone(_LOST)
            way = self._ways[terminal.uuid] = _Way(self._forks.link(lease), self._forks.masker(build, job))
        self._watch()
        return way

    def _beat(self, terminal: ForkTerminal, way: _Way) -> None:
        """Note that somebody types: the terminal lasts for the idle time from now, within its longest time."""
        clock, settings = self._forks.clock, self._settings()
        if clock.monotonic() - way.beat < _BEAT_SECONDS:
            return
        way.beat = clock.monotonic()
        left = settings.longest_seconds - int((clock.now() - terminal.started_at).total_seconds())
        if left > 0:
            self._storage.holds.lengthen(terminal.hold_id, min(settings.idle_seconds, left))

    def _watch(self) -> None:
        with self._lock:
            if self._watcher is None and not self._stopped.is_set():
                self._watcher = threading.Thread(target=self._watch_all, name="terminals", daemon=True)
                self._watcher.start()

    def _watch_all(self) -> None:
        """End the terminals that may not be open any more, each second while there are any."""
        while not self._stopped.wait(_LOOK_SECONDS):
            try:
                if not self._look_at_all():
                    return
            except DatabaseUnavailable as error:
                _log.warning("terminals are looked at again: %s", error)

    def _look_at_all(self) -> bool:
        """Tell whether there are any; if not, the next one is watched by another thread."""
        with self._lock:
            there = self._storage.terminals.open()
            for uuid in self._ways.keys() - {each.uuid for each in there}:
                del self._ways[uuid]
            if not there:
                self._watcher = None
                return False
        for terminal in there:
            if (why := self._why_over(terminal)) is not None:
                self.close(terminal, why)
        return True

    def _why_over(self, terminal: ForkTerminal) -> str | None:
        """Return why a terminal has to end; None if it may go on."""
        if terminal.until <= self._forks.clock.now():
            return _IDLE
        if not self._may(terminal):
            return _NOT_ALLOWED
        lease = self._storage.leases.get(terminal.lease_id)
        way = self._ways.get(terminal.uuid)
        if lease is None or way is None:
            return None
        now, min_free = self._forks.clock.monotonic(), self._forks.settings.jobs.min_free_bytes
        if way.use is not None and now - way.use[0] < seconds_to_full(way.use[1], lease.shape, min_free=min_free):
            return None
        use = DiskUse(self._forks.written(lease), self._forks.free_bytes())
        way.use = now, use
        return _FULL if disk_failure(use, lease.shape) is not None or use.free < min_free else None

    def _may(self, terminal: ForkTerminal) -> bool:
        """Tell whether who has opened a terminal still may, by the token of then."""
        storage = self._storage
        caller = None if terminal.token_id is None else storage.tokens.caller_of(terminal.token_id)
        job = storage.jobs.get(terminal.job_id)
        build = None if job is None else storage.builds.get(job.build_id)
        if caller is None or build is None or not caller.limits.permit(Scope.FORK):
            return False
        role = storage.organizations.role(build.organization_id, caller.user.id)
        return role is not None and (role.covers(Role.ADMIN) or not is_guarded(storage, build))
