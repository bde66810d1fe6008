"""Events in any order, late or repeated: the tables always agree with a plain model of engine.md."""

from __future__ import annotations

from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from actors.builds.retrying import retry
from actors.builds.states import JobEvent, Progress, blocks, next_state, roll_up, satisfies
from storage import Build, BuildBusy, HoldEnd, Job, JobState, LedgerSource, Outcome
from tests.clock import ManualClock
from tests.memory_folder import memory_folder
from tests.records import new_job, new_pipeline
from tests.state import new_storage
from tests.storage.model import HELD_SECONDS, TABLE, TERMINAL, ModelAttempt, ModelBuild, ModelHold, ModelJob
from tests.storage.world import DEPENDS_ON, World

_OF_THE_BUILD = {JobEvent.READY, JobEvent.BLOCKED, JobEvent.UNMET, JobEvent.RERUN}
_SERVICE_EVENTS = [event for event in JobEvent if event not in _OF_THE_BUILD]
_HELD = {JobState.FAILED, JobState.TIMED_OUT}
_WITH_VM = {"assigned", "running", "canceling", "timing_out"}

graphs = st.lists(st.dictionaries(st.integers(0, 4), st.booleans(), max_size=3), min_size=1, max_size=5).map(
    lambda needs: [{before: some[before] for before in some if before < at} for at, some in enumerate(needs)]
)
"""For each job, the earlier jobs that it waits for, and whether the edge has continue_on_failure."""


picks = st.integers(0, 20)


class Tables(RuleBasedStateMachine):
    """Real tables and the model side by side, driven as the actors do: compare and set, settle, roll up.

    An event's sender may believe the job to be in any state; that covers late and repeated messages.
    """

    def __init__(self) -> None:
        super().__init__()
        self._folder = memory_folder()
        self._clock = ManualClock()
        self._storage = new_storage(Path(self._folder.name) / "state", self._clock)
        self._world = World(self._storage, self._clock, new_pipeline(self._storage))
        self._builds: list[tuple[Build, ModelBuild]] = []
        self._parked: list[int] = []
        self._ended: dict[int, JobState] = {}

    def teardown(self) -> None:
        self._storage.close()
        self._folder.cleanup()

    @initialize(needs=graphs)
    def first_build(self, needs: list[dict[int, bool]]) -> None:
        self.create(needs)

    @precondition(lambda self: len(self._builds) < 3)
    @rule(needs=graphs)
    def create(self, needs: list[dict[int, bool]]) -> None:
        jobs = [
            new_job(str(at), *((before, DEPENDS_ON, forgiving) for before, forgiving in some.items()))
            for at, some in enumerate(needs)
        ]
        model = ModelBuild([ModelJob(some) for some in needs])
        model.settle()
        self._builds.append((self._world.build(*jobs), model))

    @rule()
    def park(self) -> None:
        lease = self._storage.leases.reserve_parked(f"parked-{next(self._world.names)}", "sandbox")
        assert self._storage.leases.parked(lease.id)
        assert not self._storage.leases.parked(lease.id)
        self._parked.append(lease.id)

    @rule(pick=picks, parked=st.booleans())
    def run(self, pick: int, parked: bool) -> None:
        """Assign a VM to a job that waits for one, and start its command."""
        waiting = [(job, model) for job, model, _ in self._jobs() if model.state == "scheduled"]
        if waiting:
            job, model = waiting[pick % len(waiting)]
            self._grant(job, model, parked=parked)
            self._start(job, model)

    @rule(pick=picks, choice=picks, seconds=st.integers(0, 300), soft=st.booleans(), billable=st.booleans())
    def go_on(self, pick: int, choice: int, seconds: int, soft: bool, billable: bool) -> None:
        """After a while, apply an event that is possible in the job's current state."""
        self._clock.advance(seconds=seconds)
        live = [each for each in self._jobs() if each[1].state in _WITH_VM]
        if live:
            job, model, build = live[pick % len(live)]
            possible = [
                JobEvent[event.upper()] for state, event in TABLE if state == model.state and event != "started"
            ]
            event = possible[choice % len(possible)]
            self._tell(job, model, build, event, job.state, soft=soft, billable=billable)

    @rule(pick=picks, event=st.sampled_from(_SERVICE_EVENTS), believed=st.sampled_from(JobState), soft=st.booleans())
    def come_late(self, pick: int, event: JobEvent, believed: JobState, soft: bool) -> None:
        """Apply an event whose sender may be wrong about the job's state."""
        jobs = self._jobs()
        job, model, build = jobs[pick % len(jobs)]
        if event is JobEvent.GRANTED:
            self._grant(job, model, parked=soft)
        elif event is JobEvent.STARTED:
            self._start(job, model)
        else:
            self._tell(job, model, build, event, believed, soft=soft, billable=True)

    @rule(pick=picks)
    def cancel(self, pick: int) -> None:
        build, model = self._builds[pick % len(self._builds)]
        asked = self._storage.builds.request_cancel(build.id)
        assert asked == (model.state not in {"passed", "failed", "canceled"})
        if asked:
            model.cancel_requested = True
            for job, expected in zip(self._world.jobs(build), model.jobs, strict=True):
                to = TABLE.get((expected.state, "cancel"))
                if to is not None:
                    assert self._storage.jobs.move(job.id, job.state, JobState(to))
                    expected.state = to

    @rule(pick=picks)
    def release(self, pick: int) -> None:
        """Release the VMs of a job's attempts that are over; releasing again does no harm."""
        jobs = self._jobs()
        _, model, _ = jobs[pick % len(jobs)]
        for attempt in model.attempts:
            if attempt.over:
                self._storage.leases.end(attempt.lease_id)

    @rule(pick=picks, reason=st.sampled_from(HoldEnd))
    def let_go(self, pick: int, reason: HoldEnd) -> None:
        """End the hold of a failed job's VM; ending it again does no harm."""
        jobs = self._jobs()
        _, model, _ = jobs[pick % len(jobs)]
        open_holds = {hold.lease_id: hold.id for hold in self._storage.holds.open()}
        for hold in model.holds:
            hold_id = open_holds.get(hold.lease_id)
            assert (hold_id is None) == (hold.cents is not None)
            if hold_id is not None:
                hold.end(self._clock.monotonic(), lost=reason is HoldEnd.LOST)
                assert self._storage.holds.end(hold_id, reason)
                assert not self._storage.holds.end(hold_id, reason)

    @rule(pick=picks, vms=st.booleans())
    def retry(self, pick: int, vms: bool) -> None:
        """Retry a finished build, with or without its VMs; refused while it has one that is not held."""
        ended = [each for each in self._builds if each[1].state in {"failed", "canceled"}]
        if not ended:
            return
        build, model = ended[pick % len(ended)]
        found = self._storage.builds.get(build.id)
        assert found is not None
        if not vms:
            for job in model.jobs:
                for attempt in job.attempts:
                    self._storage.leases.end(attempt.lease_id)
        jobs = self._world.jobs(build)
        held = {hold.lease_id for hold in self._storage.holds.open()}
        live = {lease.job_id for lease in self._storage.leases.live() if lease.id not in held}
        try:
            again = retry(self._storage, found)
        except BuildBusy:
            assert live & {job.id for job in jobs}
            return
        assert again == any(job.state != "passed" and not job.soft_failed for job in model.jobs)
        assert not again or not live & {job.id for job in jobs}
        for job, expected in zip(jobs, model.jobs, strict=True):
            if again and expected.state != "passed" and not expected.soft_failed:
                expected.run_again(self._clock.monotonic())
                self._ended.pop(job.id, None)
        if again:
            model.cancel_requested = False
            model.settle()

    @invariant()
    def builds_roll_up_as_in_the_model(self) -> None:
        for build, model in self._builds:
            self._settle(build)
            self._roll_up(build)
            found = self._storage.builds.get(build.id)
            assert found is not None
            assert found.state == model.state
            assert (found.finished_at is not None) == found.state.terminal

    @invariant()
    def jobs_are_in_the_models_states_and_ends_are_final(self) -> None:
        for build, model in self._builds:
            for job, expected in zip(self._world.jobs(build), model.jobs, strict=True):
                assert (job.state, job.soft_failed) == (expected.state, expected.soft_failed)
                if job.state.terminal:
                    assert self._ended.setdefault(job.id, job.state) is job.state

    @invariant()
    def attempts_have_no_gap_and_one_lease_each(self) -> None:
        live = [(lease.job_id, lease.attempt) for lease in self._storage.leases.live() if lease.job_id is not None]
        assert len(live) == len(set(live))
        for build, model in self._builds:
            for job, expected in zip(self._world.jobs(build), model.jobs, strict=True):
                attempts = self._storage.attempts.of_job(job.id)
                assert [each.number for each in attempts] == list(range(1, len(expected.attempts) + 1))
                assert [each.finished_at is not None for each in attempts] == [each.over for each in expected.attempts]
                assert job.attempt == len(attempts)
                latest = self._storage.leases.of_job(job.id)
                assert (latest and latest.id) == (expected.attempts[-1].lease_id if expected.attempts else None)

    @invariant()
    def every_run_of_a_job_that_is_over_has_its_one_debit(self) -> None:
        organization = self._world.pipeline.organization_id
        entries = self._storage.ledger.page(organization, 1000, None).rows
        assert {entry.source for entry in entries} <= {LedgerSource.VM_LEASE_DEBIT}
        debits = sorted((entry.description, entry.amount_cents) for entry in entries)
        expected: list[tuple[str, int]] = []
        for build, model in self._builds:
            for at, job in enumerate(model.jobs):
                name = f"{build.pipeline_slug} #{build.number} {at}"
                expected += [(f"{name}{again}", cents) for again, cents in job.debits]
                expected += [(f"{name}, held", -hold.cents) for hold in job.holds if hold.cents is not None]
        assert debits == sorted(expected)
        assert self._storage.ledger.balance(organization) == sum(cents for _, cents in debits)
        assert self._storage.ledger.verify() == []

    def _jobs(self) -> list[tuple[Job, ModelJob, ModelBuild]]:
        return [
            (job, expected, model)
            for build, model in self._builds
            for job, expected in zip(self._world.jobs(build), model.jobs, strict=True)
        ]

    def _grant(self, job: Job, model: ModelJob, *, parked: bool) -> None:
        parked_id = self._parked[0] if parked and self._parked else None
        lease = self._world.assign(job, parked_lease_id=parked_id)
        assert (lease is not None) == (model.state == "scheduled")
        if lease is not None:
            assert parked_id in {None, lease.id}
            self._parked = [each for each in self._parked if each != lease.id]
            model.state = "assigned"
            model.attempts.append(ModelAttempt(lease.id))
            assert lease.attempt == len(model.attempts)

    def _start(self, job: Job, model: ModelJob) -> None:
        if not model.attempts:
            return
        attempt = model.attempts[-1]
        assert self._storage.leases.start(attempt.lease_id, job.id) == (model.state == "assigned")
        if model.state == "assigned":
            model.state = "running"
            attempt.started_at = self._clock.monotonic()

    def _tell(
        self,
        job: Job,
        model: ModelJob,
        build: ModelBuild,
        event: JobEvent,
        believed: JobState,
        *,
        soft: bool,
        billable: bool,
    ) -> None:
        to = next_state(believed, event)
        assert to == TABLE.get((believed.value, event.name.lower()))
        if to is None:
            return
        soft_failed = soft and to is JobState.FAILED
        done = self._send(job, model, event, believed, to, soft_failed=soft_failed, billable=billable)
        assert done == (model.state == believed)
        if done:
            model.state = to.value
            model.soft_failed = soft_failed
            if model.attempts and to.value in {"scheduled", *TERMINAL}:
                model.attempts[-1].close(self._clock.monotonic(), billable=billable)
            if to in _HELD and believed not in {JobState.PENDING, JobState.SCHEDULED}:
                model.holds.append(ModelHold(model.attempts[-1].lease_id, self._clock.monotonic()))
            build.settle()

    def _send(
        self,
        job: Job,
        model: ModelJob,
        event: JobEvent,
        frm: JobState,
        to: JobState,
        *,
        soft_failed: bool,
        billable: bool,
    ) -> bool:
        """Write the changes that the actors write for an event of a job that they believe to be in ``frm``."""
        jobs, lease_id = self._storage.jobs, model.attempts[-1].lease_id if model.attempts else None
        if event is JobEvent.RETRY:
            return jobs.retry(job.id, frm, Outcome(exit_code=1), lease_id=lease_id, billable=billable)
        if to.terminal and event is not JobEvent.CACHE_HIT and frm not in {JobState.PENDING, JobState.SCHEDULED}:
            return jobs.finish(
                job.id,
                frm,
                to,
                Outcome(soft_failed=soft_failed),
                lease_id=lease_id,
                billable=billable,
                held_seconds=HELD_SECONDS if to in _HELD else 0,
            )
        cache_hit = True if event is JobEvent.CACHE_HIT else None
        return jobs.move(job.id, frm, to, Outcome(soft_failed=soft_failed, cache_hit=cache_hit))

    def _settle(self, build: Build) -> None:
        """Schedule and skip pending jobs, as the build's supervisor does."""
        progress = {job.id: Progress(job.state, job.soft_failed, job.attempt) for job in self._world.jobs(build)}
        edges = self._storage.jobs.edges(build.id)
        for job in self._world.jobs(build):
            before = [(progress[edge.from_id], edge.continue_on_failure) for edge in edges if edge.to_id == job.id]
            event = None
            if any(blocks(each, continue_on_failure=forgiving) for each, forgiving in before):
                event = JobEvent.BLOCKED
            elif all(satisfies(each, continue_on_failure=forgiving) for each, forgiving in before):
                event = JobEvent.READY
            to = None if event is None else next_state(job.state, event)
            if to is not None and self._storage.jobs.move(job.id, job.state, to):
                progress[job.id] = Progress(to, job.soft_failed, job.attempt)

    def _roll_up(self, build: Build) -> None:
        found = self._storage.builds.get(build.id)
        assert found is not None
        jobs = [Progress(job.state, job.soft_failed, job.attempt) for job in self._world.jobs(build)]
        state = roll_up(jobs, cancel_requested=found.cancel_requested)
        if state is not found.state and not found.state.terminal:
            assert self._storage.builds.move(build.id, found.state, state)
            assert not self._storage.builds.move(build.id, found.state, state)


TestTables = Tables.TestCase
TestTables.settings = settings(max_examples=60, stateful_step_count=60, report_multiple_bugs=False)
