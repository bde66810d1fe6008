"""Records that the storage accepts and returns: frozen data classes, independent of rows and queries.

Every ``id`` is the row's integer key and stays inside the service; every ``uuid`` is the UUID v4 string that callers
see. Times are aware datetimes in UTC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.facade import on_first_use

if TYPE_CHECKING:
    from storage.records.accounts import (
        Caller,
        CliLoginKind,
        ForkApproval,
        Invite,
        InviteDraft,
        Member,
        Organization,
        OrganizationChanges,
        Role,
        SessionOrigin,
        SignInLink,
        SignInLinkKind,
        SignUpMode,
        SignUpPolicy,
        Token,
        TokenKind,
        User,
    )
    from storage.records.artifacts import Artifact, NewArtifact, PastArtifact
    from storage.records.audit import AuditEntry, AuditFilter
    from storage.records.build_history import BuildPeople, FlakyStep, ListedBuild, PastBuild, SlowStep
    from storage.records.build_status import PipelineStatus
    from storage.records.builds import Build, BuildState, KeyUse, NewBuild, RequestKey, WaitsFor
    from storage.records.cache import CacheEntry, CacheName
    from storage.records.coupons import Coupon, NewCoupon, Redemption
    from storage.records.deliveries import Delivery
    from storage.records.error_codes import BuildErrorCode, JobErrorCode
    from storage.records.holds import Hold, HoldEnd
    from storage.records.identities import Identity, ProvenIdentity
    from storage.records.jobs import (
        Attempt,
        AwaitingJob,
        Dependency,
        Edge,
        EdgeKind,
        Job,
        JobState,
        NewJob,
        Outcome,
        QueuedJob,
        Shape,
        Step,
    )
    from storage.records.leases import PROVIDERS, Lease, LeaseState, PastUse, ProviderName, Snapshot
    from storage.records.ledger import Discrepancy, LedgerEntry, LedgerSource
    from storage.records.mail import Letter, Mail, MailTotals
    from storage.records.notifications import (
        BuildEvent,
        DeliveryState,
        EndedBuild,
        Endpoint,
        EndpointAnswer,
        FailingNotification,
        NewNotification,
        Notification,
        NotificationDelivery,
        NotificationKind,
        ToldEnd,
    )
    from storage.records.pages import Page
    from storage.records.passkeys import NewPasskey, Passkey, PasskeyChallenge, PasskeyPurpose
    from storage.records.payments import (
        EventEffect,
        EventOutcome,
        NewPaymentEvent,
        Payment,
        PaymentEvent,
        PaymentState,
        RefundReport,
        RefundTotal,
        SessionReport,
    )
    from storage.records.pipelines import (
        CancelSuperseded,
        Declaration,
        DeclaringRepository,
        NewPipeline,
        Pipeline,
        PipelineChanges,
        Visibility,
    )
    from storage.records.renders import Render, Rendered
    from storage.records.repositories import DeployKey, GitCredential, Repository, RepositoryHead
    from storage.records.schedules import NewSchedule, Schedule, ScheduleChanges
    from storage.records.secrets import Secret, SecretScope
    from storage.records.source_hosts import (
        BuildOrigin,
        HostConnection,
        NewHostConnection,
        NewOrigin,
        OriginEvent,
        RemoteRepository,
    )
    from storage.records.usage import BuildUsage, DayUsage, LeaseUsage, Usage, UsedBy
    from storage.records.waiting import Turn
else:
    __getattr__ = on_first_use(__name__)

__all__ = [
    "PROVIDERS",
    "Artifact",
    "Attempt",
    "AuditEntry",
    "AuditFilter",
    "AwaitingJob",
    "Build",
    "BuildErrorCode",
    "BuildEvent",
    "BuildOrigin",
    "BuildPeople",
    "BuildState",
    "BuildUsage",
    "CacheEntry",
    "CacheName",
    "Caller",
    "CancelSuperseded",
    "CliLoginKind",
    "Coupon",
    "DayUsage",
    "Declaration",
    "DeclaringRepository",
    "Delivery",
    "DeliveryState",
    "Dependency",
    "DeployKey",
    "Discrepancy",
    "Edge",
    "EdgeKind",
    "EndedBuild",
    "Endpoint",
    "EndpointAnswer",
    "EventEffect",
    "EventOutcome",
    "FailingNotification",
    "FlakyStep",
    "ForkApproval",
    "GitCredential",
    "Hold",
    "HoldEnd",
    "HostConnection",
    "Identity",
    "Invite",
    "InviteDraft",
    "Job",
    "JobErrorCode",
    "JobState",
    "KeyUse",
    "Lease",
    "LeaseState",
    "LeaseUsage",
    "LedgerEntry",
    "LedgerSource",
    "Letter",
    "ListedBuild",
    "Mail",
    "MailTotals",
    "Member",
    "NewArtifact",
    "NewBuild",
    "NewCoupon",
    "NewHostConnection",
    "NewJob",
    "NewNotification",
    "NewOrigin",
    "NewPasskey",
    "NewPaymentEvent",
    "NewPipeline",
    "NewSchedule",
    "Notification",
    "NotificationDelivery",
    "NotificationKind",
    "Organization",
    "OrganizationChanges",
    "OriginEvent",
    "Outcome",
    "Page",
    "Passkey",
    "PasskeyChallenge",
    "PasskeyPurpose",
    "PastArtifact",
    "PastBuild",
    "PastUse",
    "Payment",
    "PaymentEvent",
    "PaymentState",
    "Pipeline",
    "PipelineChanges",
    "PipelineStatus",
    "ProvenIdentity",
    "ProviderName",
    "QueuedJob",
    "Redemption",
    "RefundReport",
    "RefundTotal",
    "RemoteRepository",
    "Render",
    "Rendered",
    "Repository",
    "RepositoryHead",
    "RequestKey",
    "Role",
    "Schedule",
    "ScheduleChanges",
    "Secret",
    "SecretScope",
    "SessionOrigin",
    "SessionReport",
    "Shape",
    "SignInLink",
    "SignInLinkKind",
    "SignUpMode",
    "SignUpPolicy",
    "SlowStep",
    "Snapshot",
    "Step",
    "Token",
    "TokenKind",
    "ToldEnd",
    "Turn",
    "Usage",
    "UsedBy",
    "User",
    "Visibility",
    "WaitsFor",
]
