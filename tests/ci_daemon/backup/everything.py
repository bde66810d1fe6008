"""A storage with one of everything that it can hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from actors import retry
from storage import (
    WHOLE_JOB,
    Annotation,
    AnnotationLevel,
    Build,
    BuildEvent,
    BuildState,
    CancelSuperseded,
    Concurrency,
    CulpritState,
    Declaration,
    DeclaringRepository,
    DeployKey,
    EdgeKind,
    EndpointAnswer,
    ExcusedTest,
    ForkApproval,
    Gate,
    GateState,
    GitCredential,
    HoldEnd,
    ImageDigests,
    Job,
    JobOutputs,
    JobState,
    JobSummary,
    Lease,
    LedgerSource,
    Letter,
    MergeAgain,
    MergeState,
    NewBuild,
    NewCacheEntry,
    NewCoupon,
    NewEnvironment,
    NewHostConnection,
    NewJob,
    NewKeptFolder,
    NewMerge,
    NewNotification,
    NewOrigin,
    NewPasskey,
    NewPaymentEvent,
    NewPipeline,
    NewPipelineTrigger,
    NewProof,
    NewQuarantine,
    NewSchedule,
    NotificationKind,
    OriginEvent,
    Outcome,
    PasskeyPurpose,
    PaymentState,
    Pipeline,
    PreviewSpec,
    ProofRun,
    ProofState,
    ProvenIdentity,
    PullRequestBuild,
    RefundReport,
    RefundTotal,
    RemoteRepository,
    Rendered,
    Repository,
    RequestKey,
    Role,
    SecretScope,
    SessionOrigin,
    SessionReport,
    Shape,
    SignUpPolicy,
    Storage,
    TestName,
    TokenLimits,
    TriggerState,
    VerifiedEvent,
    Visibility,
)
from tests.clock import ManualClock
from tests.culprits import broken
from tests.records import assigned, new_job
from tests.state import new_storage

PRINTED = b"printed by the pipeline file\n"
SHAPE = Shape()
DAY = timedelta(days=1)


@dataclass
class Everything:
    """A filled storage, and the token of an account that may read all of it."""

    storage: Storage
    clock: ManualClock
    token: str
    pipeline: Pipeline
    budget_id: int | None = None
    """An API key that pays for its builds, once it is there."""

    @classmethod
    def create(cls, directory: Path) -> Everything:
        """Make a storage with one of everything."""
        clock = ManualClock()
        storage = new_storage(directory, clock)
        owner = storage.users.create("ann@example.org", "Ann")
        acme = storage.organizations.create("Acme", "https://acme.example.org", owner.id)
        _, token = storage.tokens.create_session(owner.id, "tests", SessionOrigin("192.0.2.7", "curl"))
        pipeline = storage.pipelines.create(acme.id, NewPipeline("web", "Web", "https://example.org/web.git", "main"))
        made = cls(storage, clock, token, pipeline)
        made.fill(owner.id)
        return made

    def fill(self, owner_id: int) -> None:
        """Add one of everything else."""
        self._people(owner_id)
        self._money()
        self._builds()
        self._renders()
        self._retried()
        self._holds()
        self._proofs()
        self._quarantine()
        self._fork()
        self._cache()
        self._pipelines()
        self._waiting_builds(owner_id)
        self._gates()
        self._culprits()
        self._service()

    def build(self, *steps: NewJob, **fields: Any) -> Build:
        new = NewBuild(**{"branch": "main", "commit": "c0ffee", **fields})
        return self.storage.builds.create(self.pipeline, new, steps or (new_job("only"),))

    def job(self, build: Build, position: int = 0) -> Job:
        return self.storage.jobs.of_build(build.id)[position]

    def assign(self, job: Job) -> Lease:
        return assigned(self.storage, job, image="debian:12")

    def start(self, build: Build, job: Job) -> Lease:
        """Start a job in a VM, with some output."""
        lease = self.assign(job)
        self.storage.leases.active(lease.id)
        self.storage.attempts.leased(job.id)
        self.storage.attempts.name_disk(job.id, f"name of {job.uuid}")
        self.storage.leases.start(
            lease.id, job.id, digests=ImageDigests("docker.io/library/debian@sha256:5f5f", {"db": "sha256:5f5f"})
        )
        self.storage.leases.note_running(lease.id)
        attempt = self.storage.jobs.get(job.id)
        assert attempt is not None
        with self.storage.logs.writer(build.uuid, job.uuid, attempt.attempt) as log:
            log.output(f"attempt {attempt.attempt} of {job.uuid}\n".encode())
            log.notice("a notice")
        for service in job.services:
            with self.storage.logs.service_writer(build.uuid, job.uuid, service, attempt.attempt) as log:
                log.output(f"attempt {attempt.attempt} of {service}\n".encode())
        self.storage.builds.move(build.id, BuildState.SCHEDULED, BuildState.RUNNING)
        return lease

    def end(self, build: Build, to: BuildState, **error: str) -> None:
        now = self.storage.builds.get(build.id)
        assert now is not None
        assert self.storage.builds.move(build.id, now.state, to, **error)

    def run(self, *, artifacts: int = 1) -> Build:
        """Run a build to its end, with output, artifacts and a debit."""
        build = self.build(source_archive=b"an archive", budget_id=self.budget_id)
        job = self.job(build)
        lease = self.start(build, job)
        self.clock.advance(60)
        files = self.storage.artifacts.files
        found = [files.write(build.uuid, f"dist/{n}.txt", [f"artifact {n}".encode()]) for n in range(artifacts)]
        self.storage.artifacts.store(build, job, found)
        self.storage.leases.note_exit(lease.id, job.id, 0.0)
        outcome = Outcome(exit_code=0)
        self.storage.jobs.finish(job.id, JobState.RUNNING, JobState.PASSED, outcome, lease_id=lease.id, billable=True)
        self.storage.leases.end(lease.id)
        self.end(build, BuildState.PASSED)
        return build

    def _retried(self) -> None:
        """Make a build of one job that failed, and passed when the build was retried."""
        build = self.build()
        for to in (JobState.FAILED, JobState.PASSED):
            job = self.job(build)
            lease = self.start(build, job)
            self.clock.advance(60)
            self.storage.jobs.finish(
                job.id, JobState.RUNNING, to, Outcome(exit_code=0), lease_id=lease.id, billable=True
            )
            self.storage.leases.end(lease.id)
            self.end(build, BuildState(to.value))
            if to is JobState.FAILED:
                ended = self.storage.builds.get(build.id)
                assert ended is not None
                assert retry(self.storage, ended)

    def _waiting_builds(self, owner_id: int) -> None:
        """Store settings of every kind, and builds that wait for a turn and for an approval."""
        storage = self.storage
        for superseded, approval in zip(CancelSuperseded, ForkApproval, strict=True):
            name = f"waits-{superseded}"
            organization = storage.organizations.create(name, "", owner_id)
            storage.organizations.configure(
                organization.id,
                cancel_superseded=superseded,
                fork_approval=approval,
                fork_secrets=True,
                provider="qemu",
                strict_shell=True,
                find_culprits=True,
            )
            new = NewPipeline(
                "deploy",
                "Deploy",
                "r",
                "main",
                concurrency_group="deploy",
                cancel_superseded=superseded,
                strict_shell=False,
                find_culprits=False,
                test_command="rspec -e {tests}",
            )
            pipeline = storage.pipelines.create(organization.id, new)
            job = new_job("only", lock="deploy", identity_audience="vault")
            for _ in range(2):
                storage.builds.create(
                    pipeline,
                    NewBuild("main", "c0ffee", concurrency=Concurrency("g")),
                    [job],
                )
            fork = NewBuild(
                "eve:main", "c0ffee", untrusted_origin="pull/3", from_fork=True, approval_reason="eve is a stranger"
            )
            storage.builds.create(pipeline, fork, [new_job("only")])
            approved = storage.builds.create(pipeline, fork, [new_job("only")])
            for event in VerifiedEvent:
                of_main = NewBuild("main", "c0ffee", verified_event=event, verified_ref="refs/heads/main")
                storage.builds.create_rejected(pipeline, of_main, "render_failed", "nothing")
            merged = NewBuild("pull/3", "c0ffee", base_commit="ba5e", merge_commit="4e7d")
            storage.builds.create(pipeline, merged, [new_job("only")])
            storage.approvals.approve(approved.id, "ann@example.org")

    def _gates(self) -> None:
        """Store jobs at the gate of an environment: waiting, approved, rejected, too late; one is taken over."""
        storage = self.storage
        new = NewEnvironment("production", "https://shop.example.org", ("admin",), not_author=True, gate_seconds=60)
        storage.environments.create(self.pipeline.organization_id, new)
        for approved in (True, False):
            storage.gates.decide(self._at_gate().job_id, approved=approved, by="ann@example.org", reason="a reason")
        late = self._at_gate()
        self.clock.advance(61)
        assert storage.gates.expire(late).state is GateState.EXPIRED
        self._at_gate()
        made = self.build(new_job("make"))
        assert storage.jobs.move(self.job(made).id, JobState.SCHEDULED, JobState.SKIPPED)
        self.build(new_job("make", taken=self.job(made), taken_from=made.number), new_job("deploy"))

    def _at_gate(self) -> Gate:
        job = self.job(self.build(new_job("only", environment="production")))
        return self.storage.gates.ask(job.id, 60)

    def _people(self, owner_id: int) -> None:
        storage, acme = self.storage, self.pipeline.organization_id
        key, _ = storage.tokens.create_api_key(owner_id, "to be revoked", self.clock.now() + DAY)
        storage.tokens.revoke_api_key(owner_id, key.uuid)
        limits = TokenLimits(("read",), acme, self.pipeline.id, 9)
        self.budget_id = storage.tokens.create_api_key(owner_id, "an agent", limits=limits)[0].id
        storage.tokens.caller(self.token)
        for role in (Role.ADMIN, Role.MEMBER):
            user = storage.users.create(f"{role}@example.org", role.title())
            storage.organizations.add_member(acme, user.id, role)
        organization = storage.organizations.by_id(acme)
        assert organization is not None
        storage.machine_accounts.create(organization, "deploy-bot", Role.MEMBER)
        gone = storage.users.create("gone@example.org", "Gone")
        storage.accounts.close(gone.id)
        storage.cli_logins.offer(owner_id, "nonce")
        owner = storage.users.by_id(owner_id)
        assert owner is not None
        new = NewPasskey(b"a credential", b"a key", 0, "00000000-0000-0000-0000-000000000000", ("internal",))
        storage.passkeys.use(storage.passkeys.add(owner_id, storage.passkeys.handle(owner_id), new, "Laptop"), 1)
        storage.passkey_challenges.issue(PasskeyPurpose.SIGN_IN, "")
        for purpose in (PasskeyPurpose.SIGN_UP, PasskeyPurpose.REGISTRATION, PasskeyPurpose.RECOVERY):
            storage.passkey_challenges.issue(purpose, "an owner", storage.passkeys.handle(owner_id))
        storage.sign_in_links.magic_link(owner)
        storage.sign_in_links.verification("new@example.org", "New")
        storage.sign_in_links.owner()
        storage.owner_sessions.open(storage.owner_sessions.link("root"))
        self._mails()
        proven = ProvenIdentity("https://login.example.org", "248289761001", owner.email, verified=True, name="Ann")
        assert storage.identities.sign_in(proven, SignUpPolicy()) == owner
        storage.cli_logins.issue_code(owner_id)
        pending, revoked, accepted = (
            storage.invites.draft(f"{name}@example.org", role)
            for name, role in (("pending", Role.MEMBER), ("revoked", Role.ADMIN), ("guest", Role.MEMBER))
        )
        storage.invites.create(acme, owner_id, pending, 10)
        storage.invites.revoke(acme, storage.invites.create(acme, owner_id, revoked, 10).uuid)
        storage.invites.create(acme, owner_id, accepted, 10)
        storage.invites.accept(accepted.token, storage.users.create("guest@example.org", "Guest"))
        storage.mail_opt_outs.set("admin@example.org", out=True)
        storage.standings.favour(owner_id, self.pipeline.id, yes=True)
        storage.secrets.put(SecretScope(acme), "OF_ALL", "hush")
        storage.registry_logins.put(acme, "ghcr.io", "ci", "hush")
        storage.secrets.put(SecretScope(acme, self.pipeline.id), "OF_ONE", "hush too")
        vault = {"kind": "http", "url": "https://secrets.example.org/token"}
        storage.secrets.put_source(SecretScope(acme), "ELSEWHERE", vault)
        storage.secrets.put(SecretScope(acme), "OF_MAIN", "hush", {"branches": ["main"], "events": ["push"]})

    def _mails(self) -> None:
        mail = self.storage.mail
        for recipient in ("sent", "refused", "deferred", "waiting"):
            mail.add(f"{recipient}@example.org", "test", Letter("Hello", "Hello", "Hello"), self.clock.now() + DAY, 1)
        first = mail.next()
        assert first is not None
        mail.sent(first)
        second = mail.next()
        assert second is not None
        mail.refuse(second, "550 no such mailbox")
        third = mail.next()
        assert third is not None
        mail.defer(third, "450 try later")

    def _money(self) -> None:
        acme = self.pipeline.organization_id
        for source in LedgerSource:
            if source in {LedgerSource.ADMIN_GRANT, LedgerSource.REFUND}:
                self.storage.ledger.append(acme, 1000, source, f"by {source}")
        self.storage.coupons.create(NewCoupon("WELCOME", 500, 10, self.clock.now() + DAY, "for all of us"))
        self.storage.coupons.redeem("WELCOME", acme)
        self._payments()

    def _payments(self) -> None:
        """Make payments in every state, one of them refunded in part, and events with every effect."""
        payments, acme = self.storage.payments, self.storage.organizations.by_id(self.pipeline.organization_id)
        assert acme is not None
        for state in PaymentState:
            session = f"cs_{state}"
            payments.open(session, acme.id, 1000)
            report = SessionReport(session, acme.uuid, state, 1000, f"pi_{state}")
            payments.record(NewPaymentEvent(f"evt_{state}", "checkout.session.completed", {"id": session}, report))
        for number, failed in enumerate((False, True)):
            back = RefundReport(f"re_{number}", "pi_paid", 100, failed)
            payments.record(NewPaymentEvent(f"evt_re_{number}", "refund.updated", {}, back))
        payments.record(NewPaymentEvent("evt_total", "charge.refunded", {}, RefundTotal("pi_paid", 200)))
        payments.record(NewPaymentEvent("evt_other", "charge.refunded", {}, None, "of another currency"))

    def _builds(self) -> None:
        """Make builds in every state with jobs in every state, and rows that only some of them have."""
        storage = self.storage
        self.run(artifacts=3)
        first = new_job(
            "first",
            image="debian:12",
            artifacts=("dist/*",),
            env={"A": "b"},
            cache_key="k",
            timeout_seconds=60,
            services={"db": {"image": "postgres:16"}},
            problems=("gcc",),
            preview=PreviewSpec(8000, "serve", hours=1).document,
        )
        cell: dict[str, Any] = {"matrix_job": "second", "matrix": {"n": "1"}}
        second = new_job("second", (0, EdgeKind.BUILDS_IN, False), soft_fail_policy={"exit_codes": [1]}, **cell)
        third = new_job("third", (0, EdgeKind.DEPENDS_ON, True), retry_policy={"limit": 1})
        lent = new_job("lent", secrets=("OF_ALL", "OF_ONE"), generates="more.yml")
        running = self.build(
            first,
            second,
            third,
            lent,
            source_archive=b"its archive",
            source_sha256="00" * 32,
            env={"B": "c"},
            message="a message",
            timeout_seconds=600,
            pipeline_ir="{}",
            debug=True,
            key=RequestKey(1, self.pipeline.organization_id, "push-1", b"hash" * 8),
        )
        lease = self.start(running, self.job(running))
        failed = Outcome(exit_code=1, error_code="vm_lost", error_message="gone")
        storage.jobs.retry(
            self.job(running).id, JobState.RUNNING, failed, lease_id=lease.id, billable=True, backoff_seconds=5
        )
        self.start(running, self.job(running, 3))
        job = storage.jobs.get(self.job(running, 3).id)
        assert job is not None
        assert storage.job_secrets.resolve(running, job)
        storage.generated.keep(job.id, "jobs: {more: {run: make}}")
        storage.generated.add(running, job, 4, [new_job("more", (3, EdgeKind.DEPENDS_ON, False))])
        self.assign(self.job(self.build()))
        for state in JobState:
            build = self.build()
            lease = self.start(build, self.job(build))
            self._take(build, state, lease)
        for build_state in BuildState:
            if build_state is not BuildState.SCHEDULED:
                self.end(self.build(), build_state, error_code="internal_error", error_message="no reason")
        storage.builds.request_cancel(self.build().id)
        self.build(new_job("waits", image="alpine:3"))
        storage.queue.await_image("alpine:3", "alpine:3")
        storage.builds.create_rejected(self.pipeline, NewBuild("main", "c0ffee"), "invalid_ir", "no steps")
        expired = self.run()
        again = NewBuild("main", "c0ffee", rebuild_of=expired.number, source_of=expired.uuid)
        storage.builds.create(self.pipeline, again, [new_job()])
        storage.log_retention.measure()
        storage.source_retention.measure()
        for retention in (storage.log_retention, storage.artifact_retention, storage.source_retention):
            retention.expire(kept for kept in retention.oldest_first() if kept.build_id == expired.id)

    def _take(self, build: Build, state: JobState, lease: Lease) -> None:
        """Take a build's running job to a state."""
        job = self.job(build)
        if state in {JobState.RUNNING, JobState.PENDING, JobState.ASSIGNED}:
            return
        if state.terminal:
            self.clock.advance(7)
            self.storage.leases.kill(lease.id, "root")
            outcome = Outcome(exit_code=3, error_code="step_timeout", error_message="why", soft_failed=True)
            self.storage.jobs.finish(job.id, JobState.RUNNING, state, outcome, lease_id=lease.id, billable=True)
            self.storage.leases.end(lease.id)
            self.end(build, BuildState.FAILED)
        else:
            self.storage.attempts.exited(job.id, 3)
            self.storage.jobs.move(job.id, JobState.RUNNING, state)

    def _renders(self) -> None:
        storage, organization = self.storage, self.pipeline.organization_id
        ends = {"printing": self._plan, "rejected": self._refuse, "accepted": self._plan, "waiting": self._wait}
        for name, end in ends.items():
            new = NewBuild("main", name, source_archive=b"an archive", ref="refs/heads/main", changed_files=("a.py",))
            build = storage.renders.begin(self.pipeline, new, f"https://example.org/{name}.tar.gz")
            render = storage.renders.get(build.id)
            assert render is not None
            lease = storage.renders.lease(render, str(uuid4()), provider="sandbox", image="debian:12", shape=SHAPE)
            assert lease is not None
            assert lease.organization_id == organization
            end(build)
        storage.renders.keep(b"name" * 8, Rendered("{}", PRINTED), self.clock.now() + DAY)

    def _plan(self, build: Build) -> None:
        self._print(build)
        assert self.storage.renders.plan(build.id, "{}", None, [new_job("rendered")], has_source=True)

    def _refuse(self, build: Build) -> None:
        self._print(build)
        assert self.storage.renders.refuse(build.id, "render_failed", "no pipelines")

    def _wait(self, build: Build) -> None:
        self.storage.runner_tokens.mint(build.id)

    def _print(self, build: Build) -> None:
        with self.storage.logs.writer(build.uuid, "render", 1) as log:
            log.output(PRINTED)

    def _holds(self) -> None:
        for reason in (None, *HoldEnd):
            build = self.build()
            job = self.job(build)
            lease = self.start(build, job)
            self.clock.advance(5)
            self.storage.jobs.finish(
                job.id,
                JobState.RUNNING,
                JobState.FAILED,
                Outcome(exit_code=1),
                lease_id=lease.id,
                billable=True,
                held_seconds=600,
            )
            hold = self.storage.holds.of_lease(lease.id)
            assert hold is not None
            self.clock.advance(30)
            if reason is not None:
                assert self.storage.holds.end(hold.id, reason)
            self.end(build, BuildState.FAILED)

    def _proofs(self) -> None:
        """Store a proof in each state, with runs that told something and nothing."""
        build = self.run()
        for state in ProofState:
            new = NewProof(
                2,
                60,
                3600,
                (TestName("unit", "adds"), WHOLE_JOB),
                "ada@example.org",
                "true",
                exit_counts=True,
                max_cents=7,
                budget_id=self.budget_id,
            )
            proof = self.storage.proofs.add(build, self.job(build), new)
            self.storage.proofs.record(proof, ProofRun(1, 0, 1500, None), {TestName("unit", "adds"): True})
            if state is ProofState.FINISHED:
                self.storage.proofs.record(proof, ProofRun(2, None, 0, "it was lost"), {})
            elif state is not ProofState.RUNNING:
                self.storage.proofs.end(proof.id, state, "a reason")

    def _quarantine(self) -> None:
        """Store tests in quarantine, of which one has ended, and a failure that it excused."""
        build, kept = self.run(), self.storage.quarantine
        _, test = (
            kept.add(
                self.pipeline.id,
                NewQuarantine(TestName("unit", name), "test", "ada@example.org", "a reason", 7),
                "ada@example.org",
            )
            for name in ("adds", "draws")
        )
        kept.end(test, "ada@example.org")
        kept.excuse(self.job(build).id, [ExcusedTest(self.job(build).id, build.id, "unit", "adds", test.expires_at)])

    def _fork(self) -> None:
        build = self.run()
        with self.storage.transaction():
            fork = self.storage.leases.reserve_fork(
                "fork", "sandbox", "debian:12", SHAPE, network=True, organization_id=build.organization_id
            )
            hold = self.storage.holds.begin_fork(fork.id, self.job(build).id, 60, "ada@example.org", self.budget_id)
            owner = self.storage.tokens.caller(self.token)
            assert owner is not None
            self.storage.terminals.add(hold, owner.user.id, owner.token_id, before=True)
            self.storage.terminals.note_end(hold, "it was closed")
            self._preview(build, hold)

    def _preview(self, build: Build, hold: int) -> None:
        """Store a preview that has had a VM and has ended."""
        job, previews = self.job(build), self.storage.previews
        previews.add(build, replace(job, preview=PreviewSpec(8000, "serve").document), "disk-3")
        (preview,) = previews.there()
        previews.begin(preview.id, hold)
        previews.fail(preview.id, "a reason")
        previews.end(preview.id, "a member ended it")

    def _cache(self) -> None:
        storage = self.storage
        build = self.run()
        job = self.job(build)
        storage.snapshots.add("disk-1", job.id, "sandbox", cache_name="name")
        storage.snapshots.add("disk-2", job.id, "sandbox", base="disk-1")
        storage.snapshots.measured("disk-1", 4096)
        storage.snapshots.measured("disk-2", 2**40)
        storage.kept_disks.keep("disk-2", build)
        for _ in range(2):
            self.clock.advance(days=1)
            storage.kept_disks.charge()
        assert storage.cache.store(NewCacheEntry("name", self.pipeline.id, "k", "debian:12", "disk-1"))
        uuid, size = storage.kept_folders.write([b"a tar"])
        organization, pipeline = self.pipeline.organization_id, self.pipeline.id
        storage.kept_folders.keep(
            NewKeptFolder(organization, pipeline, "name/pip", "main", "", "only of web #1", "0" * 64, uuid, size)
        )
        entry = storage.cache.find("name")
        assert entry is not None
        storage.taken_builds.take(self.build().id, "base@main", build.id)
        storage.told.store_outputs(
            JobOutputs(job.id, build.id, {"VERSION": "1.2"}, "$CI_OUTPUT cannot be used: line 2")
        )
        storage.told.store_summary(JobSummary(job.id, build.id, "# Passed", is_cut=True))
        remarks = [Annotation(AnnotationLevel.ERROR, "is not used", "a.py", 3, 1, "F401", "ruff", 7)]
        remarks += [Annotation(each, "a word") for each in AnnotationLevel]
        storage.told.store_annotations(job.id, build.id, remarks)
        later = self.build(new_job("only", cache_key="k", artifacts=("dist/*",)))
        assert storage.cache.hit(entry, self.job(later), JobState.PASSED, later.uuid, "cache hit")
        self.end(later, BuildState.PASSED)

    def _repositories(self, acme: int) -> Repository:
        """Store repositories of plain git, one with a password and one with a key; return the first."""
        storage = self.storage
        connected = storage.repositories.connect(acme, "https://example.org/acme/web.git", "acme/web", 60)
        storage.repository_checks.record_heads(connected, {"refs/heads/main": "c0ffee"})
        storage.repository_checks.checked(connected, "main")
        storage.repositories.mint_token(connected)
        storage.repositories.edit(connected, pull_requests=PullRequestBuild.MERGED, merge_again=MergeAgain.ALWAYS)
        storage.repository_credentials.put(connected, GitCredential("ci", "a password"))
        by_ssh = storage.repositories.connect(acme, "git@example.org:acme/lib.git", "acme/lib", 60)
        storage.repositories.edit(by_ssh, merge_again=MergeAgain.LABELLED)
        storage.repository_credentials.put(by_ssh, DeployKey("private", "public", "host"))
        storage.organization_keys.put(by_ssh.organization_id, "private", "public")
        self._merges(connected)
        return connected

    def _merges(self, repository: Repository) -> None:
        """Store a merge queue with an entry in each state."""
        queues = self.storage.merge_queues
        for number, state in enumerate(MergeState, 1):
            entry = queues.add(repository, NewMerge(number, f"topic-{number}", "main", "c0ffee"), "ada@example.org")
            if state is not MergeState.QUEUED:
                queues.build(entry, "ba5e", "4e7d")
            if state not in {MergeState.QUEUED, MergeState.BUILDING}:
                queues.end(entry, state, "a reason")

    def _pipelines(self) -> None:
        storage, acme = self.storage, self.pipeline.organization_id
        for each in Visibility:
            new = NewPipeline(f"p-{each}", each.title(), "r", "main", visibility=each, description="a description")
            storage.pipelines.create(acme, new)
        declared = Declaration("Ci", True, ({"event": "push"},))
        storage.declarations.register(DeclaringRepository(acme, "acme/web", "acme/web"), "ci", "main", declared)
        storage.declarations.register(DeclaringRepository(acme, "acme/web", "acme/web"), "dropped", "main", declared)
        storage.declarations.follow(DeclaringRepository(acme, "acme/web", "acme/web"), {"ci": declared})
        connected = self._repositories(acme)
        account = storage.host_connections.connect(
            NewHostConnection(acme, "github", "7", "acme", "Organization", "Acme", b"a token")
        )
        remote = RemoteRepository("1", "https://github.com/acme/api.git", "acme/api", "main", private=True)
        storage.repositories.follow(account, [remote])
        storage.host_connections.synced(account)
        storage.host_connections.suspend(account)
        origin = NewOrigin(
            connected.id,
            OriginEvent.PULL_REQUEST,
            "refs/pull/3/head",
            3,
            "main",
            actor="eve",
            author_name="Eve",
            author_email="eve@example.org",
        )
        origins = (origin, replace(origin, event=OriginEvent.PUSH), replace(origin, event=OriginEvent.TAG))
        for build_id, made_for in enumerate(origins, 1):
            storage.build_origins.record(build_id, made_for, reports=True)
        for build_id, state in enumerate(BuildState, 4):
            storage.build_origins.record(build_id, replace(origin, event=OriginEvent.MANUAL), reports=True)
            storage.build_origins.reported(build_id, state, "42")
        storage.build_origins.report_failed(1, "the host is away", 60)
        storage.deliveries.receive("github", "installation", "1", None, b"{}")
        installed = storage.deliveries.next_unassigned("github")
        assert installed is not None
        storage.deliveries.postpone(installed, "the host is away")
        for delivery_id in ("processed", "waiting"):
            storage.deliveries.receive("git", "push", delivery_id, connected, b"a body")
        storage.deliveries.failed(connected.id, "no route to host")
        first = storage.deliveries.pending(connected.id)[:1]
        storage.deliveries.processed(connected.id, first, lambda _delivery: "1 build: ci #1")
        storage.push_outcomes.record(connected.id, "refs/heads/main", "c0ffee", "1 build: ci #1", ["acme/ci"], 7)
        storage.skipped_pipelines.record(connected.id, self.pipeline.id, "c0ffee", "no file of it has changed")
        storage.skipped_pipelines.report_failed(storage.skipped_pipelines.due(1)[0], "the host is away", 60)
        storage.commit_checks.look(connected.id, "c0ffee")
        check = storage.commit_checks.due(1)[0]
        storage.commit_checks.reported(check, "failed", "Failed: ci", "a check")
        storage.commit_checks.report_failed(check, "the host is away", 60)
        storage.repository_checks.failed(connected, "no route to host")
        nightly = NewSchedule("30 4 * * *", "Europe/Berlin", "main", self.clock.now() + DAY)
        schedule = storage.schedules.create(self.pipeline.id, nightly)
        storage.schedules.built(schedule.id, 1)
        storage.schedules.failed(schedule.id, "there is no build of the branch")
        storage.schedules.declare(self.pipeline.id, [replace(nightly, declared_in=".hm/ci.yml")])
        self._triggers()
        self._notifications()
        gone = storage.pipelines.create(acme, NewPipeline("gone", "Gone", "r", "main"))
        storage.pipelines.delete(gone.id)

    def _triggers(self) -> None:
        """Make pipeline triggers of every state, of which one has followed a build, and one has to."""
        triggers = self.storage.pipeline_triggers
        inputs = {"version": "outputs.package.VERSION"}
        after = [NewPipelineTrigger("base", each, "main", ".hm/ci.yml", inputs) for each in TriggerState]
        triggers.declare(self.pipeline.id, after)
        base = self.storage.pipelines.create(self.pipeline.organization_id, NewPipeline("base", "Base", "r", "main"))
        upstream = self.storage.builds.create_rejected(base, NewBuild("main", "c0ffee"), "invalid_ir", "no steps")
        follows = replace(triggers.of_pipeline(self.pipeline.id)[0], upstream_id=upstream.id)
        following = NewBuild("main", "c0ffee", upstream_id=upstream.id)
        built = self.storage.builds.create_rejected(self.pipeline, following, "invalid_ir", "no steps")
        triggers.built(follows, built)
        triggers.failed(follows, "the branch is gone", 60)
        triggers.follow(upstream, base)

    def _notifications(self) -> None:
        """Make notifications of every kind, deliveries in every state, and ends that are told."""
        deliveries, acme = self.storage.notification_deliveries, self.pipeline.organization_id
        refused = EndpointAnswer(500, "no", 3, "the endpoint answers 500")
        for kind in NotificationKind:
            url = None if kind is NotificationKind.EMAIL else "https://hooks.example.org/builds"
            made, _ = self.storage.notifications.create(self.pipeline.id, NewNotification(kind, tuple(BuildEvent), url))
            if url is None:
                deliveries.mailed(made.id, BuildEvent.RECOVERED, 1, "ann@example.org")
                deliveries.skipped(made.id, BuildEvent.RECOVERED, 2, None, "nobody to tell")
            else:
                deliveries.note(deliveries.add(made.id, BuildEvent.FINISHED, 1, "{}"), refused)
                deliveries.note(deliveries.add(made.id, BuildEvent.FINISHED, 2, "{}"), replace(refused, error=None))
            if kind is NotificationKind.SLACK:
                deliveries.note(deliveries.add(made.id, BuildEvent.FINISHED, 3, "{}"), refused)
                self.storage.notifications.update(made.id, enabled=False)
        creator = self.storage.members.all(acme)[0]
        self.build(created_by=creator.user_id)
        for ended in self.storage.ended_builds.untold(20):
            build = self.storage.builds.get(ended.build_id)
            state = None if build is None or build.state is BuildState.CANCELED else build.state
            self.storage.ended_builds.tell(ended, state)

    def _culprits(self) -> None:
        """Make a search of every end, each of its own pipeline, and one that has built a commit."""
        storage, acme = self.storage, self.pipeline.organization_id
        for state in CulpritState:
            new = NewPipeline(f"broken-{state}", "Broken", "https://example.org/web.git", "main")
            pipeline = storage.pipelines.create(acme, new)
            _, search = broken(storage, pipeline)
            storage.culprits.list_commits(search, ["c1", "c2", "bad"])
            test = NewBuild("main", "c1", ref="c1", culprit_search_id=search.id)
            storage.renders.begin(pipeline, test, None)
            assert storage.culprits.begin_round(search, 1, "it builds a commit")
            if state is not CulpritState.SEARCHING:
                storage.culprits.end(search, state, "why", "c2", subject="Break it", author=("Eve", "eve@example.org"))

    def _service(self) -> None:
        storage = self.storage
        storage.switches.drain()
        storage.clock_steps.resume()
        for days in (30, -30):
            self.clock.set_ahead(days=days)
            storage.clock_steps.follow()
        storage.traces_sent.note(self.clock.now())
        parked = storage.leases.reserve_parked(str(uuid4()), "sandbox")
        storage.leases.parked(parked.id, member="m1")
        storage.leases.reserve_unclaimed(str(uuid4()), "sandbox", "debian:12", SHAPE)
        assert storage.issuer_keys.public()
        storage.audit.write("root", "force-finish", "acme/web/1", "stuck", origin="pts/0", organization="acme")


@contextmanager
def reopened(directory: Path, clock: ManualClock) -> Iterator[Storage]:
    storage = Storage.open(directory, clock)
    try:
        yield storage
    finally:
        storage.close()
