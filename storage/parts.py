"""The parts of the storage, each with the tables and files of one subject."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.facade import on_first_use

if TYPE_CHECKING:
    from storage.accounts.cli_logins import CliLogins
    from storage.accounts.closing import Accounts
    from storage.accounts.identities import Identities
    from storage.accounts.invites import Invites
    from storage.accounts.members import Members
    from storage.accounts.organizations import Organizations
    from storage.accounts.passkey_challenges import PasskeyChallenges
    from storage.accounts.passkeys import Passkeys
    from storage.accounts.sign_in_links import SignInLinks
    from storage.accounts.sign_ups import SignUps
    from storage.accounts.tokens import Tokens
    from storage.accounts.users import Users
    from storage.audit import Audit
    from storage.billing.coupons import Coupons
    from storage.billing.ledger import Ledger
    from storage.billing.metering import Meter
    from storage.billing.payments import Payments
    from storage.billing.usage import UsageReport
    from storage.builds.approvals import Approvals
    from storage.builds.artifacts import Artifacts
    from storage.builds.attempts import Attempts
    from storage.builds.build_history import BuildHistory
    from storage.builds.builds import Builds
    from storage.builds.concurrency import ConcurrencyGroups
    from storage.builds.force_finish import ForceFinish
    from storage.builds.jobs import Jobs
    from storage.builds.renders import Renders
    from storage.builds.retries import Retries
    from storage.builds.room import BuildRoom
    from storage.builds.runner_tokens import RunnerTokens
    from storage.builds.service_failures import ServiceFailures
    from storage.builds.superseding import SupersededBuilds
    from storage.clock_steps import ClockSteps
    from storage.database.integrity import Integrity
    from storage.files.all_kinds import FILE_KINDS
    from storage.files.artifact_retention import ArtifactRetention
    from storage.files.artifacts import ArtifactFiles
    from storage.files.confinement import Confinement
    from storage.files.log_retention import LogRetention
    from storage.files.logs import LogFiles
    from storage.files.source_retention import SourceRetention
    from storage.files.sources import Sources
    from storage.idempotency import IdempotencyKeys
    from storage.leases.cache import Cache
    from storage.leases.holds import Holds
    from storage.leases.leases import Leases
    from storage.leases.queue import Queue
    from storage.leases.snapshots import Snapshots
    from storage.mail import MailQueue
    from storage.notifications.deliveries import NotificationDeliveries
    from storage.notifications.ended_builds import EndedBuilds
    from storage.notifications.notifications import Notifications
    from storage.notifications.opt_outs import MailOptOuts
    from storage.pipelines.build_status import BuildStatus
    from storage.pipelines.declarations import Declarations
    from storage.pipelines.pipelines import Pipelines
    from storage.pipelines.schedules import Schedules
    from storage.pipelines.secrets import Secrets
    from storage.source_hosts.checks import RepositoryChecks
    from storage.source_hosts.connections import HostConnections
    from storage.source_hosts.credentials import RepositoryCredentials
    from storage.source_hosts.deliveries import Deliveries
    from storage.source_hosts.origins import BuildOrigins
    from storage.source_hosts.outcomes import PushOutcomes
    from storage.source_hosts.repositories import Repositories
    from storage.switches import Switches
    from storage.traces import TracesSent
else:
    __getattr__ = on_first_use(__name__)

__all__ = [
    "FILE_KINDS",
    "Accounts",
    "Approvals",
    "ArtifactFiles",
    "ArtifactRetention",
    "Artifacts",
    "Attempts",
    "Audit",
    "BuildHistory",
    "BuildOrigins",
    "BuildRoom",
    "BuildStatus",
    "Builds",
    "Cache",
    "CliLogins",
    "ClockSteps",
    "ConcurrencyGroups",
    "Confinement",
    "Coupons",
    "Declarations",
    "Deliveries",
    "EndedBuilds",
    "ForceFinish",
    "Holds",
    "HostConnections",
    "IdempotencyKeys",
    "Identities",
    "Integrity",
    "Invites",
    "Jobs",
    "Leases",
    "Ledger",
    "LogFiles",
    "LogRetention",
    "MailOptOuts",
    "MailQueue",
    "Members",
    "Meter",
    "NotificationDeliveries",
    "Notifications",
    "Organizations",
    "PasskeyChallenges",
    "Passkeys",
    "Payments",
    "Pipelines",
    "PushOutcomes",
    "Queue",
    "Renders",
    "Repositories",
    "RepositoryChecks",
    "RepositoryCredentials",
    "Retries",
    "RunnerTokens",
    "Schedules",
    "Secrets",
    "ServiceFailures",
    "SignInLinks",
    "SignUps",
    "Snapshots",
    "SourceRetention",
    "Sources",
    "SupersededBuilds",
    "Switches",
    "Tokens",
    "TracesSent",
    "UsageReport",
    "Users",
]
