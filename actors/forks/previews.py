"""Previews: passed jobs' disks that serve a port, while somebody looks (engine.md, "Previews").

A row says that a preview is there, and a hold that it has a VM. The program in the VM, what it prints and the way to
its port are this process's alone: the previews that an earlier one had awake are asleep, and wake at the next look.
"""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from actors import vms
from actors.builds.adding import has_credit
from actors.builds.attempt.vm import Abandoned
from actors.builds.outcome import DiskUse, disk_failure, seconds_to_full
from actors.forks.forks import DiskGone, ForkBusy
from storage import PREVIEW_OPENER, DatabaseUnavailable, PreviewState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.forks.forks import Fork, Forks
    from actors.settings import PreviewHosts, PreviewSettings
    from storage import Build, Job, Preview, PreviewSpec, Storage

_log = logging.getLogger(__name__)

_WATCH_SECONDS = 1.0
_HOLD_SECONDS, _BEAT_SECONDS = 180, 60.0
"""The most seconds that a VM outlives a killed service, and those between two beats of its hold."""
_LOOK_SECONDS = 10.0
"""The seconds between two notes that somebody looks, and between two looks at what it has cost."""
_PROBE_SECONDS, _FIRST_PAUSE, _MOST_PAUSE = 5.0, 0.02, 0.25
_CONNECT_SECONDS = 5.0
_AGAIN_SECONDS = 5.0
"""The seconds after a failure before another try."""
_MOST_SHOWN, _LAST_LINES = 64 << 10, 10
_LONGEST_SECONDS = 20 * 86_400.0
"""The seconds for which a program runs: the VM waits for its end by a time that poll(2) takes."""

_DRAINING = "the service is about to restart: look again soon"
_NO_CREDIT = "the organization has no credit left"
_NO_BUDGET = "the budget of the API key that began its build is spent"
_FULL = "it filled the disk of its VM, or the host's"
_LOST = "its VM is gone"
_ENDED = "it has ended"
LATE = "its time is up"


class PreviewGone(Exception):
    """A preview has ended; the message says why."""


class PreviewAsleep(Exception):
    """A preview does not answer yet: it wakes."""


class PreviewFailed(Exception):
    """A preview cannot wake, or not now; the message says why, with the last that its command has printed."""


class _Failed(Exception):
    """The program of a preview does not answer; the message says why."""


class _Vm:
    """The VM of a preview that is awake or wakes: its program, what that prints, and who looks."""

    def __init__(self, preview: Preview, spec: PreviewSpec, now: float) -> None:
        self.preview = preview
        self.spec = spec
        self.fork: Fork | None = None
        self.woken = threading.Event()
        """Set once it answers, or has failed."""

        self.failure: str | None = None
        self.exit_code: int | None = None
        self.looked = self.noted = self.priced = self.beat = now
        self.requests = 0
        self.use: tuple[float, DiskUse] | None = None
        self._printed = bytearray()
        self._lock = threading.Lock()

    def follow(self, output: vms.CommandOutput) -> None:
        """Keep the last that the program prints, until it ends or the connection is lost."""
        try:
            for piece in output:
                with self._lock:
                    self._printed += piece
                    del self._printed[:-_MOST_SHOWN]
        except (vms.VmError, Abandoned) as error:
            _log.debug("the output of preview %s is followed no longer: %s", self.preview.uuid, error)
        else:
            self.exit_code = 0 if output.exited is None else output.exited.exit_code

    def last_lines(self) -> str:
        """Return the last lines of its program, without secrets; empty if it printed nothing."""
        if self.fork is None:
            return ""
        with self._lock:
            printed = bytes(self._printed)
        shown = bytes(self.fork.masker.mask(printed, more=False)[0]).decode(errors="replace")
        return "\n".join(shown.strip().splitlines()[-_LAST_LINES:])

    def connection(self) -> vms.Connection:
        """Return the connection to the VM. Raises VmError and Abandoned."""
        if self.fork is None:
            raise vms.VmLost(_LOST)
        return self.fork.link.connected()


class Previews:
    """Wakes previews when somebody looks, and lets them sleep. Safe in any thread; its calls block.

    A thread looks each second at those that are awake, while there are any.
    """

    def __init__(
        self,
        storage: Storage,
        forks: Forks,
        draining: Callable[[], bool],
    ) -> None:
        self._storage = storage
        self._forks = forks
        self._draining = draining
        self._lock = threading.Lock()
        self._vms: dict[str, _Vm] = {}
        self._failed: dict[str, float] = {}
        self._watcher: threading.Thread | None = None
        self._stopped = threading.Event()

    @property
    def hosts(self) -> PreviewHosts | None:
        """The hosts of previews; None if there are none."""
        return self._forks.settings.preview_hosts

    @property
    def _settings(self) -> PreviewSettings:
        return self._forks.settings.previews

    def start(self) -> None:
        """Let the previews sleep that an earlier process had awake."""
        left = [each for each in self._storage.previews.there() if each.holding]
        if left:
            threading.Thread(target=self._leave, args=(left,), name="previews-left", daemon=True).start()

    def stop(self) -> None:
        """Let all sleep: nothing of what is awake outlives this process."""
        self._stopped.set()
        with self._lock:
            watcher, there = self._watcher, list(self._vms.values())
        if watcher is not None:
            watcher.join()
        for vm in there:
            self._sleep(vm)

    @contextmanager
    def request(self, preview: Preview, seconds: float) -> Iterator[vms.PortSocket]:
        """Yield a connection to a preview's port, for one request; wake it for at most ``seconds`` first.

        Raises PreviewGone, PreviewFailed, and PreviewAsleep if it still wakes then.
        """
        vm = self._woken(preview, seconds)
        clock = self._forks.clock
        with self._lock:
            vm.requests += 1
        try:
            if clock.monotonic() - vm.noted >= _LOOK_SECONDS:
                vm.noted = clock.monotonic()
                self._storage.previews.look(preview.id)
            try:
                port = vms.open_port(vm.connection(), vm.spec.port, seconds=_CONNECT_SECONDS)
            except (vms.VmError, Abandoned) as error:
                raise PreviewFailed(self._in_words(vm, str(error) or _LOST)) from error
            with port:
                yield port
        finally:
            with self._lock:
                vm.requests -= 1
                vm.looked = clock.monotonic()

    def end(self, preview: Preview, why: str) -> None:
        """End a preview, and with it its VM."""
        self._storage.previews.end(preview.id, why)
        with self._lock:
            vm = self._vms.get(preview.uuid)
        if vm is not None:
            self._sleep(vm)

    def _woken(self, preview: Preview, seconds: float) -> _Vm:
        """Return the VM of a preview that answers. Raises as `request`."""
        clock = self._forks.clock
        if preview.state is PreviewState.GONE:
            raise PreviewGone(preview.why_ended)
        if preview.until <= clock.now():
            self.end(preview, LATE)
            raise PreviewGone(LATE)
        with self._lock:
            vm = self._vms.get(preview.uuid)
            if vm is None:
                vm = self._begun(preview)
        if not vm.woken.wait(seconds):
            raise PreviewAsleep
        if vm.failure is not None:
            raise PreviewFailed(vm.failure)
        vm.looked = clock.monotonic()
        return vm

    def _begun(self, preview: Preview) -> _Vm:
        """Begin to wake a preview, with the lock held. Raises PreviewFailed."""
        now = self._forks.clock.monotonic()
        self._failed = {uuid: at for uuid, at in self._failed.items() if now - at < _AGAIN_SECONDS}
        if preview.uuid in self._failed:
            raise PreviewFailed(preview.failure or _LOST)
        if self._stopped.is_set() or self._draining():
            raise PreviewFailed(_DRAINING)
        job = self._storage.jobs.get(preview.job_id)
        build = None if job is None else self._storage.builds.get(job.build_id)
        spec = None if job is None else job.its_preview
        if job is None or build is None or spec is None:
            raise PreviewFailed("its job is not there any more")
        vm = self._vms[preview.uuid] = _Vm(preview, spec, now)
        threading.Thread(target=self._wake, args=(vm, build, job), name="preview-wake", daemon=True).start()
        if self._watcher is None:
            self._watcher = threading.Thread(target=self._watch, name="previews", daemon=True)
            self._watcher.start()
        return vm

    def _wake(self, vm: _Vm, build: Build, job: Job) -> None:
        """Make the VM of a preview, start its program, and wait until its port takes connections."""
        try:
            if (why := self._unpaid(build)) is not None:
                raise _Failed(why)
            self._make(vm, build, job)
            self._await_port(vm)
        except (_Failed, DiskGone, ForkBusy, vms.VmError, Abandoned, DatabaseUnavailable) as error:
            self._fail(vm, str(error) or _LOST)
        else:
            vm.looked = self._forks.clock.monotonic()
            self._storage.previews.answers(vm.preview.id)
            vm.woken.set()

    def _make(self, vm: _Vm, build: Build, job: Job) -> None:
        preview = vm.preview
        if preview.holding:  # by an earlier process, which was killed
            self._leave([preview])
        disk = self._storage.snapshots.get(preview.disk)
        if disk is None:
            raise DiskGone("its disk was removed")

        def hold(hold_id: int) -> None:
            self._require_place(preview)
            if not self._storage.previews.begin(preview.id, hold_id):
                raise _Failed(_ENDED)

        fork = self._forks.make(
            build,
            job,
            before=False,
            seconds=_HOLD_SECONDS,
            opened_by=PREVIEW_OPENER,
            budget_id=build.budget_id,
            held=hold,
            disk=disk,
        )
        with self._lock:
            vm.fork = fork
            wanted = self._vms.get(preview.uuid) is vm
        if not wanted:  # what ended it meanwhile found no VM to end
            raise _Failed(_ENDED)
        spec = vms.CommandSpec(
            command=vm.spec.command,
            strict=build.strict_shell,
            env={**fork.variables, "PORT": str(vm.spec.port)},
            seconds=_LONGEST_SECONDS,
            grace=1.0,
            output_limit=2 * _MOST_SHOWN,
            output_tail=_MOST_SHOWN,
        )
        output = vms.start(vm.connection(), spec)
        threading.Thread(target=vm.follow, args=(output,), name="preview-output", daemon=True).start()

    def _await_port(self, vm: _Vm) -> None:
        """Wait until the port takes connections. Raises _Failed, VmError and Abandoned."""
        clock, seconds = self._forks.clock, self._settings.ready_seconds
        deadline, pause = clock.monotonic() + seconds, _FIRST_PAUSE
        while True:
            try:
                vms.open_port(vm.connection(), vm.spec.port, seconds=_PROBE_SECONDS).close()
            except vms.PortClosed:
                pass
            else:
                return
            if vm.exit_code is not None:
                raise _Failed(f"its command has ended with exit code {vm.exit_code}")
            if clock.monotonic() >= deadline:
                raise _Failed(f"nothing takes connections at port {vm.spec.port} after {seconds} s")
            if self._stopped.wait(pause):
                raise _Failed(_DRAINING)
            pause = min(_MOST_PAUSE, pause * 1.5)

    def _require_place(self, preview: Preview) -> None:
        """Raise ForkBusy unless another preview may be awake, in a transaction."""
        settings = self._settings
        awake = [each for each in self._storage.previews.there() if each.holding and each.id != preview.id]
        if len(awake) >= settings.most:
            raise ForkBusy(
                f"{len(awake)} previews are awake on this service, and there may be no more: look again soon"
            )
        if sum(each.organization_id == preview.organization_id for each in awake) >= settings.most_per_organization:
            raise ForkBusy("as many previews of its organization are awake as may be: look again soon, or end one")

    def _unpaid(self, build: Build, cost: float = 0.0) -> str | None:
        """Return why nobody pays for a preview, whose VM has cost so many cents by now; None if somebody does."""
        storage = self._storage
        budget = None if build.budget_id is None else storage.budgets.of_key(build.budget_id)
        if budget is not None and budget.left <= cost:
            return _NO_BUDGET
        if not has_credit(storage, build.organization_id):
            return _NO_CREDIT
        if storage.billing.require_credit and storage.ledger.balance(build.organization_id) <= cost:
            return _NO_CREDIT
        return None

    def _in_words(self, vm: _Vm, why: str) -> str:
        said = vm.last_lines()
        return f"{why}; its last lines:\n{said}" if said else why

    def _fail(self, vm: _Vm, why: str) -> None:
        """Let a preview sleep that does not answer, and say why."""
        vm.failure = self._in_words(vm, why)
        _log.info("preview %s does not answer: %s", vm.preview.uuid, why)
        with suppress(DatabaseUnavailable):
            self._storage.previews.fail(vm.preview.id, vm.failure)
        with self._lock:
            self._failed[vm.preview.uuid] = self._forks.clock.monotonic()
        self._sleep(vm)
        vm.woken.set()

    def _sleep(self, vm: _Vm) -> None:
        """End the VM of a preview; what fails is left to the reaper."""
        with self._lock:
            if self._vms.get(vm.preview.uuid) is vm:
                del self._vms[vm.preview.uuid]
            fork, vm.fork = vm.fork, None
        if fork is not None:
            fork.link.abandon()
            self._forks.end(fork.lease)

    def _leave(self, previews: list[Preview]) -> None:
        """End the VMs that previews have of an earlier process."""
        for preview in previews:
            hold = None if preview.hold_id is None else self._storage.holds.by_id(preview.hold_id)
            lease = None if hold is None else self._storage.leases.get(hold.lease_id)
            if lease is not None and lease.finished_at is None:
                self._forks.end(lease)

    def _watch(self) -> None:
        """Look at those that are awake, each second while there are any."""
        while not self._stopped.wait(_WATCH_SECONDS):
            with self._lock:
                there = list(self._vms.values())
                if not there:
                    self._watcher = None
                    return
            for vm in there:
                try:
                    self._look_at(vm)
                except DatabaseUnavailable as error:
                    _log.warning("previews are looked at again: %s", error)

    def _look_at(self, vm: _Vm) -> None:
        """Let a preview sleep that is gone, that nobody looks at, or that may not go on."""
        now = self._forks.clock.monotonic()
        row = self._storage.previews.by_uuid(vm.preview.uuid)
        if row is None or row.state is PreviewState.GONE or row.until <= self._forks.clock.now():
            self._sleep(vm)
            return
        fork = vm.fork
        if not vm.woken.is_set() or fork is None:
            return
        if now - vm.looked >= self._settings.idle_seconds and not vm.requests:
            self._sleep(vm)
            return
        if vm.exit_code is not None:
            self._fail(vm, f"its command has ended with exit code {vm.exit_code}")
        elif (why := self._why_over(vm, fork, now)) is not None:
            self._fail(vm, why)

    def _why_over(self, vm: _Vm, fork: Fork, now: float) -> str | None:
        """Return why a preview may not go on; None if it may."""
        if now - vm.beat >= _BEAT_SECONDS:
            vm.beat = now
            if not self._forks.lengthen(fork, _HOLD_SECONDS):
                return _LOST
        if now - vm.priced >= _LOOK_SECONDS:
            vm.priced = now
            hold = self._storage.holds.of_lease(fork.lease.id)
            if hold is None:
                return _LOST
            seconds = (self._forks.clock.now() - hold.started_at).total_seconds()
            if (why := self._unpaid(fork.build, seconds * hold.micro_cents / 1_000_000)) is not None:
                return why
        min_free = self._forks.settings.jobs.min_free_bytes
        if vm.use is not None and now - vm.use[0] < seconds_to_full(vm.use[1], fork.lease.shape, min_free=min_free):
            return None
        use = DiskUse(self._forks.written(fork.lease), self._forks.free_bytes())
        vm.use = now, use
        return _FULL if disk_failure(use, fork.lease.shape) is not None or use.free < min_free else None
