"""The storage as one object: a state directory's database, key, logs, artifacts and sources."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import apsw
import peewee

from storage import parts
from storage.database.connection import Database
from storage.database.schema import migrate, migrations, version
from storage.errors import AlreadyInitialized, DatabaseDamaged, DatabaseGone, DatabaseUnreadable, NotInitialized
from storage.files.kinds import ARTIFACTS, DATABASE, KEPT_FOLDERS, KEY, LOGS, SOURCES, WORKSPACES, sync_folder
from storage.vault import Vault

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from storage.billing.settings import BillingSettings
    from storage.database.clock import Clock, Timeline
    from storage.settings import BuildSettings

T = TypeVar("T")

_NO_LIMIT = sys.maxsize


def _part(make: Callable[[Storage], T]) -> cached_property[T]:
    """Return an attribute that is made on first use, because most processes use few parts."""
    return cached_property(make)


class Storage:
    """All state that survives the daemon. Safe in any thread; a process may open several."""

    def __init__(
        self,
        directory: Path,
        database: Database,
        vault: Vault,
        billing: BillingSettings | None,
        log_limit: int,
        clock: Clock,
        *,
        bounds: BuildSettings | None = None,
        strict_shell: bool = False,
    ) -> None:
        """Compose the parts that ``create`` and ``open`` prepared."""
        self._database = database
        self.directory = directory
        self.vault = vault
        self._billing = billing
        self._log_limit = log_limit
        self._clock = clock
        self._bounds = bounds
        self._strict_shell = strict_shell

    billing = _part(lambda self: self._billing or parts.BillingSettings())
    confinement = _part(lambda _: parts.Confinement())
    sources = _part(lambda self: parts.Sources(self.directory / SOURCES))
    logs = _part(lambda self: parts.LogFiles(self.directory / LOGS, self._log_limit, self._clock))
    ledger = _part(lambda self: parts.Ledger(self._database))
    _budget_charges = _part(lambda self: parts.BudgetCharges(self._database))
    holds = _part(lambda self: parts.Holds(self._database, self.billing, self.ledger, self._budget_charges))
    organizations = _part(lambda self: parts.Organizations(self._database))
    members = _part(lambda self: parts.Members(self._database))
    invites = _part(lambda self: parts.Invites(self._database, self.organizations))
    users = _part(lambda self: parts.Users(self._database, self.organizations))
    machine_accounts = _part(lambda self: parts.MachineAccounts(self._database, self.organizations))
    tokens = _part(lambda self: parts.Tokens(self._database))
    passkeys = _part(lambda self: parts.Passkeys(self._database))
    passkey_challenges = _part(lambda self: parts.PasskeyChallenges(self._database))
    mail = _part(lambda self: parts.MailQueue(self._database, self.vault))
    sign_in_links = _part(lambda self: parts.SignInLinks(self._database))
    owner_sessions = _part(lambda self: parts.OwnerSessions(self._database))
    sign_ups = _part(lambda self: parts.SignUps(self._database, self.users, self.sign_in_links))
    identities = _part(lambda self: parts.Identities(self._database, self.users, self.sign_ups))
    cli_logins = _part(lambda self: parts.CliLogins(self._database, self.tokens))
    pipelines = _part(lambda self: parts.Pipelines(self._database, self.holds))
    declarations = _part(lambda self: parts.Declarations(self._database, self.pipelines))
    idempotency_keys = _part(lambda self: parts.IdempotencyKeys(self._database))
    concurrency_groups = _part(lambda self: parts.ConcurrencyGroups(self._database))
    _build_settings = _part(lambda self: self._bounds or parts.BuildSettings())
    _job_inserter = _part(lambda self: parts.JobInserter(self._database, self._build_settings))
    audit = _part(lambda self: parts.Audit(self._database))
    _build_inserter = _part(
        lambda self: parts.BuildInserter(
            self._database,
            self.vault,
            self.sources,
            self.idempotency_keys,
            self.concurrency_groups,
            self._job_inserter,
            lambda: self.audit,
            strict_shell=self._strict_shell,
        )
    )
    builds = _part(lambda self: parts.Builds(self._database, self.vault, self._build_inserter))
    build_room = _part(lambda self: parts.BuildRoom(self._database, self.sources, self._build_settings))
    approvals = _part(lambda self: parts.Approvals(self._database, self.builds, self.concurrency_groups))
    environments = _part(lambda self: parts.Environments(self._database))
    gates = _part(lambda self: parts.Gates(self._database))
    build_history = _part(lambda self: parts.BuildHistory(self._database))
    build_status = _part(lambda self: parts.BuildStatus(self._database))
    standings = _part(lambda self: parts.Standings(self._database))
    search = _part(lambda self: parts.Search(self._database))
    accounts = _part(
        lambda self: parts.Accounts(self._database, self.builds, self.holds, self.passkeys, self.machine_accounts)
    )
    attempts = _part(lambda self: parts.Attempts(self._database))
    pipeline_triggers = _part(lambda self: parts.PipelineTriggers(self._database))
    schedules = _part(lambda self: parts.Schedules(self._database, self.pipelines))
    secrets = _part(lambda self: parts.Secrets(self._database, self.vault))
    registry_logins = _part(lambda self: parts.RegistryLogins(self._database, self.vault))
    job_secrets = _part(lambda self: parts.JobSecrets(self._database, self.vault, self.secrets))
    generated = _part(lambda self: parts.GeneratedJobs(self._database, self._job_inserter))
    issuer_keys = _part(lambda self: parts.IssuerKeys(self._database, self.vault))
    taken_builds = _part(lambda self: parts.TakenBuilds(self._database))
    told = _part(lambda self: parts.Told(self._database))
    _artifact_files = _part(lambda self: parts.ArtifactFiles(self.directory / ARTIFACTS))
    artifacts = _part(lambda self: parts.Artifacts(self._database, self._artifact_files, self.attempts))
    artifact_retention = _part(lambda self: parts.ArtifactRetention(self._database, self._artifact_files))
    budgets = _part(lambda self: parts.Budgets(self._database, self.billing, self.builds, self.holds))
    culprits = _part(lambda self: parts.Culprits(self._database, self.billing, self.builds))
    _meter = _part(lambda self: parts.Meter(self._database, self.billing, self._budget_charges))
    jobs = _part(lambda self: parts.Jobs(self._database, self.attempts, self._meter, self.ledger, self.holds))
    leases = _part(lambda self: parts.Leases(self._database, self.jobs, self.attempts, self._meter))
    renders = _part(
        lambda self: parts.Renders(
            self._database, self.builds, self.leases, self.concurrency_groups, self._job_inserter
        )
    )
    host_connections = _part(lambda self: parts.HostConnections(self._database, self.vault))
    repositories = _part(lambda self: parts.Repositories(self._database))
    quarantine = _part(lambda self: parts.Quarantine(self._database))
    proofs = _part(lambda self: parts.Proofs(self._database))
    merge_queues = _part(lambda self: parts.MergeQueues(self._database))
    organization_keys = _part(lambda self: parts.OrganizationKeys(self._database, self.vault))
    repository_credentials = _part(
        lambda self: parts.RepositoryCredentials(self._database, self.vault, self.organization_keys)
    )
    repository_checks = _part(lambda self: parts.RepositoryChecks(self._database, self.repositories))
    deliveries = _part(lambda self: parts.Deliveries(self._database, self.repository_checks))
    commit_checks = _part(lambda self: parts.CommitChecks(self._database))
    skipped_pipelines = _part(lambda self: parts.SkippedPipelines(self._database))
    push_outcomes = _part(lambda self: parts.PushOutcomes(self._database))
    build_origins = _part(lambda self: parts.BuildOrigins(self._database))
    retries = _part(
        lambda self: parts.Retries(self._database, self.holds, self.concurrency_groups, self.build_origins, self.gates)
    )
    notifications = _part(lambda self: parts.Notifications(self._database, self.vault, self.pipelines))
    notification_deliveries = _part(lambda self: parts.NotificationDeliveries(self._database, self.notifications))
    ended_builds = _part(lambda self: parts.EndedBuilds(self._database))
    mail_opt_outs = _part(lambda self: parts.MailOptOuts(self._database, self.vault))
    runner_tokens = _part(lambda self: parts.RunnerTokens(self._database))
    queue = _part(lambda self: parts.Queue(self._database))
    superseded = _part(lambda self: parts.SupersededBuilds(self._database))
    clock_steps = _part(lambda self: parts.ClockSteps(self._database))
    integrity = _part(lambda self: parts.Integrity(self._database.path, self._database.damage, self._clock))
    switches = _part(lambda self: parts.Switches(self._database))
    snapshots = _part(lambda self: parts.Snapshots(self._database))
    cache = _part(
        lambda self: parts.Cache(self._database, self.jobs, self.snapshots, self.artifacts, self.told, self.logs)
    )
    kept_folders = _part(lambda self: parts.KeptFolders(self._database, self.directory / KEPT_FOLDERS))
    workspaces = _part(lambda self: parts.Workspaces(self.directory / WORKSPACES))
    kept_disks = _part(lambda self: parts.KeptDisks(self._database, self.billing, self.ledger))
    previews = _part(lambda self: parts.Previews(self._database))
    terminals = _part(lambda self: parts.Terminals(self._database))
    force_finish = _part(lambda self: parts.ForceFinish(self._database, self.builds, self.jobs, self.leases))
    usage = _part(lambda self: parts.UsageReport(self._database))
    service_failures = _part(lambda self: parts.ServiceFailures(self._database))
    coupons = _part(lambda self: parts.Coupons(self._database, self.ledger))
    payments = _part(lambda self: parts.Payments(self._database, self.ledger))
    log_retention = _part(lambda self: parts.LogRetention(self._database, self.logs))
    source_retention = _part(lambda self: parts.SourceRetention(self._database, self.sources))
    traces_sent = _part(lambda self: parts.TracesSent(self._database))

    @classmethod
    def create(
        cls,
        directory: Path,
        clock: Clock,
        *,
        billing: BillingSettings | None = None,
        log_limit: int = _NO_LIMIT,
        strict_shell: bool = False,
    ) -> Storage:
        """Create a state directory's database, key and folders, and open it. Raises AlreadyInitialized.

        An existing key is kept: its database may still be restored from a backup.
        """
        database = directory / DATABASE
        if database.exists():
            raise AlreadyInitialized(f"{directory} is initialized already: nothing to do")
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in {kind.folder for kind in parts.FILE_KINDS}:
            (directory / folder).mkdir(mode=0o700, exist_ok=True)
        if not (directory / KEY).exists():
            Vault.create(directory / KEY)
        os.close(os.open(database, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        sync_folder(directory)
        sync_folder(directory.parent)
        return cls.open(directory, clock, billing=billing, log_limit=log_limit, strict_shell=strict_shell)

    @classmethod
    def open(
        cls,
        directory: Path,
        clock: Clock,
        *,
        billing: BillingSettings | None = None,
        bounds: BuildSettings | None = None,
        log_limit: int = _NO_LIMIT,
        strict_shell: bool = False,
    ) -> Storage:
        """Open a state directory and bring its schema up to date.

        Raises NotInitialized, KeyUnreadable, DatabaseUnreadable, DatabaseBusy, SchemaTooNew or MigrationFailed.
        """
        path = directory / DATABASE
        if not path.is_file():
            raise NotInitialized(directory)
        vault = Vault.of_service(directory / KEY, os.environ)
        database = Database(path, clock)
        with ExitStack() as undo:
            undo.callback(database.close)
            try:
                migrate(database, migrations())
            except (apsw.Error, peewee.PeeweeException, DatabaseDamaged, DatabaseGone) as error:
                message = f"cannot read {path}: {error}; check its owner, or restore a backup"
                raise DatabaseUnreadable(message) from error
            undo.pop_all()
        return cls(
            directory,
            database,
            vault,
            billing,
            log_limit,
            clock,
            bounds=bounds,
            strict_shell=strict_shell,
        )

    def transaction(self) -> AbstractContextManager[None]:
        """Make the changes of a body one transaction, rolled back on an exception; other writers wait.

        They are on the disk when it returns.
        """
        return self._database.write()

    def await_disk(self, later: Callable[[Callable[[], None]], bool] | None = None) -> None:
        """Return when all that this thread read or wrote is on the disk, or ``later`` waits for it.

        Called before anything outside of the service learns of it; not within a transaction. A wait is offered to
        ``later`` first, which returns True if it takes it: it calls the wait, in any thread, before it tells
        anybody. Raises DatabaseUnavailable, as the wait does.
        """
        self._database.await_disk(later)

    def write_ahead(self) -> None:
        """Let this thread's writes return before they are on the disk, until it calls `await_disk`.

        For threads that tell nothing and remove no file meanwhile: several writes then wait for one sync.
        """
        self._database.write_ahead()

    @property
    def timeline(self) -> Timeline:
        """Durations between stored instants, whatever happens to the wall clock."""
        return self._database.timeline

    def schema_version(self) -> int:
        """Return the number of the last migration applied to the database."""
        return version(self._database)

    def database_bytes(self) -> int:
        """Return the size of the database in bytes, with its write-ahead log."""
        files = (self.directory / DATABASE, self.directory / f"{DATABASE}-wal")
        return sum(file.stat().st_size for file in files if file.exists())

    def let_go(self) -> None:
        """Give this thread's connection to other threads, before this one waits for long."""
        self._database.let_go()

    def close(self) -> None:
        """Close all threads' connections to the database. Called when no other thread uses the storage."""
        if "confinement" in self.__dict__:  # used
            self.confinement.close()
        self._database.close()
