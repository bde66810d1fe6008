"""The prover: runs tests again and again, on forks of the disk before their job.

See engine.md, "Proofs".
"""

from __future__ import annotations

import threading
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, assert_never

from actors.builds.adding import has_credit
from actors.messages import Drain, PollStorage, ProverMessage
from actors.supervision import Supervised
from actors.vms.provider import VmError
from storage import MICRO_CENTS, immutable, price

if TYPE_CHECKING:
    from actors.composition import Composition
    from storage import Lease, Proof

_AT_ONCE = 8
_BUSY_PAUSE = 2.0
_MARGIN_SECONDS = 180
"""The most seconds that a run has its VM beside those of its command."""

_TELLING_NOTHING = 3
"""As many first runs that tell nothing end a proof, as the others would not either."""


@immutable
class _Run:
    """Work on a worker thread: a run of a proof."""

    proof: Proof
    number: int

    def __str__(self) -> str:
        return f"run {self.number} of proof {self.proof.uuid}"


@immutable
class _Ended:
    """Worker: this run has ended; ``busy`` says why it could not begin, and it begins again later."""

    task: _Run
    busy: str | None = None


class Prover(Supervised[ProverMessage | _Ended, _Run]):
    """Runs the proofs that are in the storage, eight runs at once, and none while jobs wait for a VM.

    A run is recorded when it has ended. So a successor, in this process or the next, begins again those that were under
    way, and ends the VMs that these have left.
    """

    def __init__(self, parts: Composition) -> None:
        super().__init__(parts.timer, parts.addresses.root, parts.timings.retry)
        self._parts = parts
        self._storage = parts.storage
        self._stopping = threading.Event()
        self._running: dict[int, set[int]] = {}
        self._ended_proofs: set[int] = set()
        """Proofs that have ended while runs of theirs are under way; workers read it."""

        self._failures: Counter[int] = Counter()
        self._paused_until = 0.0

    def begin(self) -> None:
        """End the VMs of runs that an earlier actor has begun."""
        for proof in self._storage.proofs.open():
            self._storage.proofs.leave_forks(proof)

    def teardown(self) -> None:
        """End the runs under way; the next process begins them again."""
        self._stopping.set()

    def handle(self, message: ProverMessage | _Ended) -> None:
        """Begin the runs that there is room for."""
        match message:
            case PollStorage():
                pass
            case Drain():
                self._stopping.set()
            case _Ended(task, busy):
                self._forget(task)
                if busy is not None:
                    self._pause()
            case _:
                assert_never(message)
        self._begin_runs()

    def on_task_error(self, task: _Run, error: Exception) -> None:
        """Try the run again after a pause; after the third error the proof stops."""
        if isinstance(error, VmError):
            self.log.warning("%s has no VM: %s", task, error)
        else:
            super().on_task_error(task, error)
        self._forget(task)
        self._pause()
        self._failures[task.proof.id] += 1
        if self._failures[task.proof.id] >= _TELLING_NOTHING:
            self._stop_proof(task.proof, f"its runs cannot be made: {error}")

    def _forget(self, task: _Run) -> None:
        self._running[task.proof.id].discard(task.number)

    def _pause(self) -> None:
        self._paused_until = self._parts.clock.monotonic() + _BUSY_PAUSE

    def _begin_runs(self) -> None:
        """Begin runs: of the organization that has the fewest, then of the oldest proof."""
        proofs = {each.id: each for each in self._storage.proofs.open()}
        self._ended_proofs.update(self._running.keys() - proofs)
        for proof_id in [each for each in self._running if not self._running[each] and each not in proofs]:
            del self._running[proof_id]
            self._ended_proofs.discard(proof_id)
            del self._failures[proof_id]
        if not proofs or self._stopping.is_set() or self._parts.clock.monotonic() < self._paused_until:
            return
        left = {each.id: self._numbers_left(each) for each in proofs.values()}
        while self._count < _AT_ONCE and any(left.values()):
            if self._storage.queue.length():
                return
            load = Counter({each.organization_id: 0 for each in proofs.values()})
            for each in proofs.values():
                load[each.organization_id] += len(self._running.get(each.id, ()))
            proof = min((proofs[each] for each in left if left[each]), key=lambda each: load[each.organization_id])
            if not self._may_run(proof):
                left[proof.id] = []
                continue
            self._begin(_Run(proof, left[proof.id].pop(0)))

    @property
    def _count(self) -> int:
        return sum(map(len, self._running.values()))

    def _numbers_left(self, proof: Proof) -> list[int]:
        begun = {each.number for each in self._storage.proofs.runs(proof.id)} | self._running.get(proof.id, set())
        return [number for number in range(1, proof.times + 1) if number not in begun]

    def _may_run(self, proof: Proof) -> bool:
        """Tell whether a proof may have another run now; stop it if it will never."""
        if proof.expires_at <= self._parts.clock.now():
            return not self._stop_proof(proof, "its time is up")
        budget = None if proof.budget_id is None else self._storage.budgets.of_key(proof.budget_id)
        if budget is not None and not budget.left:
            return not self._stop_proof(proof, "the budget of its API key is spent")
        if not has_credit(self._storage, proof.organization_id):
            return not self._stop_proof(proof, "the organization has no credit left")
        return proof.max_cents is None or self._can_pay(proof, proof.max_cents)

    def _can_pay(self, proof: Proof, max_cents: int) -> bool:
        """Tell whether another run surely costs no more than is left, beside those under way."""
        under_way = len(self._running.get(proof.id, ()))
        origin = self._origin(proof)
        if origin is None:
            return True  # the run will say that the disk is gone
        most = price(self._storage.billing, origin.shape) * (proof.seconds + _MARGIN_SECONDS) // MICRO_CENTS
        if self._storage.proofs.cents(proof) + most * (under_way + 1) <= max_cents:
            return True
        if not under_way:
            self._stop_proof(proof, f"another run may cost more than is left of {max_cents} cents")
        return False

    def _origin(self, proof: Proof) -> Lease | None:
        """Return the lease whose disk is forked."""
        from actors.forks.forks import kept_disk  # noqa: PLC0415 - what makes VMs, for the first proof

        job = self._storage.jobs.get(proof.job_id)
        disk = None if job is None else kept_disk(self._storage, job)
        return None if disk is None else self._storage.leases.by_uuid(disk.name)

    def _stop_proof(self, proof: Proof, reason: str) -> bool:
        from storage import ProofState  # noqa: PLC0415 - for the first proof

        return self._storage.proofs.end(proof.id, ProofState.STOPPED, reason) or True

    def _begin(self, task: _Run) -> None:
        self._running.setdefault(task.proof.id, set()).add(task.number)
        self.work(task, partial(self._run, task))

    def _run(self, task: _Run) -> _Ended:
        """Run once and record what came of it. In a worker thread."""
        from actors.forks.forks import DiskGone, ForkBusy  # noqa: PLC0415 - what makes VMs, for the first proof
        from actors.forks.proving import prove_once  # noqa: PLC0415 - as above
        from actors.forks.running import RunFailed  # noqa: PLC0415 - as above
        from storage import ProofRun  # noqa: PLC0415 - as above

        proof = task.proof

        def gone() -> bool:
            return self._stopping.is_set() or proof.id in self._ended_proofs

        try:
            run, passed = prove_once(self._parts.forks, self._storage, proof, task.number, gone)
        except ForkBusy as error:
            return _Ended(task, str(error))
        except DiskGone as error:
            self._stop_proof(proof, str(error))
            return _Ended(task)
        except RunFailed as error:
            if gone():
                return _Ended(task)
            run, passed = ProofRun(task.number, None, 0, str(error)), {}
        self._storage.proofs.record(proof, run, passed)
        self._stop_if_useless(proof)
        return _Ended(task)

    def _stop_if_useless(self, proof: Proof) -> None:
        runs = self._storage.proofs.runs(proof.id)
        if len(runs) >= _TELLING_NOTHING and all(each.trouble is not None for each in runs):
            self._stop_proof(proof, f"its runs tell nothing: {runs[-1].trouble}")
