"""The storage as one object: a state directory's database, key, logs, artifacts and sources."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import peewee

from storage.accounts import Accounts
from storage.artifact_files import ARTIFACT, ArtifactFiles
from storage.artifact_retention import ArtifactRetention
from storage.artifacts import Artifacts
from storage.attempts import Attempts
from storage.audit import Audit
from storage.billing import BillingSettings
from storage.builds import Builds
from storage.cache import Cache
from storage.coupons import Coupons
from storage.database import Database
from storage.declarations import Declarations
from storage.errors import AlreadyInitialized, DatabaseGone, DatabaseUnreadable, NotInitialized
from storage.faults import Faults
from storage.handoffs import Handoffs
from storage.holds import Holds
from storage.idempotency import IdempotencyKeys
from storage.invites import Invites
from storage.jobs import Jobs
from storage.layout import ARTIFACTS, DATABASE, KEY, LOGS, SOURCES
from storage.leases import Leases
from storage.ledger import Ledger
from storage.log_retention import LogRetention
from storage.logs import INDEX, LOG, LogFiles, LogLimit
from storage.members import Members
from storage.metering import Meter
from storage.organizations import Organizations
from storage.pipelines import Pipelines
from storage.queue import Queue
from storage.renders import Renders
from storage.runner_tokens import RunnerTokens
from storage.schema import migrate, migrations, version
from storage.secrets import Secrets
from storage.settlement import Settlement
from storage.snapshots import Snapshots
from storage.sources import ARCHIVE, MANIFEST, PARTIAL, PARTIAL_MANIFEST, Sources
from storage.switches import Switches
from storage.tokens import Tokens
from storage.traces import TracesSent
from storage.usage import UsageReport
from storage.users import Users
from storage.vault import Vault

if TYPE_CHECKING:
    from pathlib import Path

    from storage.clock import Clock

__all__ = ["FILE_KINDS", "Storage"]

FILE_KINDS = (ARCHIVE, PARTIAL, MANIFEST, PARTIAL_MANIFEST, INDEX, LOG, ARTIFACT)
"""All kinds of files besides the database and the key, in the order in which a backup may copy them."""


class Storage:
    """All state that survives the daemon. Safe in any thread; a process may open several."""

    def __init__(
        self,
        directory: Path,
        database: Database,
        vault: Vault,
        billing: BillingSettings,
        log_limit: LogLimit,
        clock: Clock,
    ) -> None:
        """Compose the parts that ``create`` and ``open`` prepared."""
        self._database = database
        self.directory = directory
        self.vault = vault
        self.billing = billing
        self.sources = Sources(directory / SOURCES)
        self.logs = LogFiles(directory / LOGS, log_limit, clock)
        self.ledger = Ledger(database)
        self.holds = Holds(database, billing, self.ledger)
        self.organizations = Organizations(database)
        self.members = Members(database)
        self.invites = Invites(database, self.organizations)
        self.users = Users(database, self.organizations)
        self.tokens = Tokens(database)
        self.handoffs = Handoffs(database, self.tokens)
        self.pipelines = Pipelines(database, self.holds)
        self.declarations = Declarations(database, self.pipelines)
        self.idempotency_keys = IdempotencyKeys(database)
        self.builds = Builds(database, vault, self.sources, self.idempotency_keys)
        self.accounts = Accounts(database, self.builds, self.holds)
        self.attempts = Attempts(database)
        self.secrets = Secrets(database, vault)
        artifact_files = ArtifactFiles(directory / ARTIFACTS)
        self.artifacts = Artifacts(database, artifact_files, self.attempts)
        self.artifact_retention = ArtifactRetention(database, artifact_files)
        meter = Meter(database, billing)
        self.jobs = Jobs(database, self.attempts, meter, self.ledger, self.holds)
        self.leases = Leases(database, self.jobs, self.attempts, meter)
        self.renders = Renders(database, self.builds, self.leases)
        self.runner_tokens = RunnerTokens(database)
        self.queue = Queue(database)
        self.switches = Switches(database)
        self.snapshots = Snapshots(database)
        self.cache = Cache(database, self.jobs, self.snapshots, self.artifacts, self.logs)
        self.audit = Audit(database)
        self.settlement = Settlement(database, self.builds, self.jobs, self.leases, self.audit)
        self.usage = UsageReport(database)
        self.faults = Faults(database)
        self.coupons = Coupons(database, self.ledger)
        self.log_retention = LogRetention(database, self.logs)
        self.traces_sent = TracesSent(database)

    @classmethod
    def create(
        cls, directory: Path, clock: Clock, *, billing: BillingSettings | None = None, log_limit: LogLimit | None = None
    ) -> Storage:
        """Create a state directory's database, key and folders, and open it. Raises AlreadyInitialized.

        An existing key is kept: its database may still be restored from a backup.
        """
        database = directory / DATABASE
        if database.exists():
            raise AlreadyInitialized(f"{directory} is initialized already: nothing to do")
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in {kind.folder for kind in FILE_KINDS}:
            (directory / folder).mkdir(mode=0o700, exist_ok=True)
        if not (directory / KEY).exists():
            Vault.create(directory / KEY)
        os.close(os.open(database, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        return cls.open(directory, clock, billing=billing, log_limit=log_limit)

    @classmethod
    def open(
        cls, directory: Path, clock: Clock, *, billing: BillingSettings | None = None, log_limit: LogLimit | None = None
    ) -> Storage:
        """Open a state directory and bring its schema up to date.

        Raises NotInitialized, KeyUnreadable, DatabaseUnreadable, DatabaseBusy, SchemaTooNew or MigrationFailed.
        """
        path = directory / DATABASE
        if not path.is_file():
            raise NotInitialized(directory)
        vault = Vault.of_service(directory / KEY, os.environ)
        database = Database(path, clock)
        try:
            migrate(database, migrations())
        except BaseException as error:
            database.close()
            if isinstance(error, peewee.PeeweeException | DatabaseGone):
                raise DatabaseUnreadable(
                    f"cannot read {path}: {error}; check its owner, or restore a backup"
                ) from error
            raise
        return cls(directory, database, vault, billing or BillingSettings(), log_limit or LogLimit(), clock)

    def schema_version(self) -> int:
        """Return the number of the last migration applied to the database."""
        return version(self._database)

    def database_bytes(self) -> int:
        """Return the size of the database in bytes, with its write-ahead log."""
        files = (self.directory / DATABASE, self.directory / f"{DATABASE}-wal")
        return sum(file.stat().st_size for file in files if file.exists())

    def close(self) -> None:
        """Close all threads' connections to the database. Called when no other thread uses the storage."""
        self._database.close()
