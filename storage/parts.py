"""The parts of the storage, each with the tables and files of one subject."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.facade import on_first_use

if TYPE_CHECKING:
    from storage.accounts.closing import Accounts
    from storage.accounts.invites import Invites
    from storage.accounts.machine_accounts import MachineAccounts
    from storage.accounts.organizations import Members, Organizations
    from storage.accounts.owner_sessions import OwnerSessions
    from storage.accounts.passkeys import PasskeyChallenges, Passkeys
    from storage.accounts.sign_in import Identities, SignInLinks, SignUps
    from storage.accounts.tokens import CliLogins, Tokens
    from storage.accounts.users import Users
    from storage.audit import Audit
    from storage.billing.budgets import BudgetCharges
    from storage.billing.holds import Holds
    from storage.billing.ledger import Ledger
    from storage.billing.payments import Coupons, Payments
    from storage.billing.settings import BillingSettings
    from storage.billing.usage import Meter, UsageReport
    from storage.builds.artifacts import Artifacts, TakenBuilds
    from storage.builds.budgets import Budgets
    from storage.builds.build_history import BuildHistory, ServiceFailures
    from storage.builds.builds import Approvals, Builds
    from storage.builds.concurrency import ConcurrencyGroups, SupersededBuilds
    from storage.builds.culprits import Culprits
    from storage.builds.environments import Environments
    from storage.builds.gates import Gates
    from storage.builds.generated import GeneratedJobs
    from storage.builds.insertion import BuildInserter, IdempotencyKeys, JobInserter
    from storage.builds.jobs import Attempts, Jobs
    from storage.builds.kept_folders import KeptFolders
    from storage.builds.merge_queue import MergeQueues
    from storage.builds.proofs import Proofs
    from storage.builds.quarantine import Quarantine
    from storage.builds.retries import Retries
    from storage.builds.room import BuildRoom
    from storage.builds.search import Search
    from storage.builds.told import Told
    from storage.clock_steps import ClockSteps
    from storage.database.integrity import Integrity
    from storage.files.artifacts import ArtifactFiles
    from storage.files.confinement import Confinement
    from storage.files.kinds import FILE_KINDS
    from storage.files.logs import LogFiles
    from storage.files.retention import ArtifactRetention, LogRetention, SourceRetention
    from storage.files.sources import Sources
    from storage.files.workspaces import Workspaces
    from storage.issuer_keys import IssuerKeys
    from storage.leases.cache import Cache, Snapshots
    from storage.leases.force_finish import ForceFinish
    from storage.leases.kept_disks import KeptDisks
    from storage.leases.leases import Leases
    from storage.leases.previews import Previews
    from storage.leases.queue import Queue
    from storage.leases.renders import Renders, RunnerTokens
    from storage.leases.terminals import Terminals
    from storage.mail import MailOptOuts, MailQueue
    from storage.notifications.deliveries import EndedBuilds, NotificationDeliveries
    from storage.notifications.notifications import Notifications
    from storage.pipelines.build_status import BuildStatus
    from storage.pipelines.declarations import Declarations
    from storage.pipelines.job_secrets import JobSecrets
    from storage.pipelines.pipeline_triggers import PipelineTriggers
    from storage.pipelines.pipelines import Pipelines
    from storage.pipelines.registry_logins import RegistryLogins
    from storage.pipelines.schedules import Schedules
    from storage.pipelines.secrets import Secrets
    from storage.pipelines.standings import Standings
    from storage.service_state import Switches, TracesSent
    from storage.settings import BuildSettings
    from storage.source_hosts.commit_checks import CommitChecks
    from storage.source_hosts.connections import HostConnections, OrganizationKeys, RepositoryCredentials
    from storage.source_hosts.deliveries import Deliveries
    from storage.source_hosts.origins import BuildOrigins, PushOutcomes
    from storage.source_hosts.repositories import Repositories, RepositoryChecks
    from storage.source_hosts.skips import SkippedPipelines
else:
    __getattr__ = on_first_use(__name__)
