"""The storage: records of users, builds, jobs, leases and money, and the files that belong to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.facade import on_first_use

if TYPE_CHECKING:
    from storage.accounts.names import RESERVED_SLUGS, email_address, slugify
    from storage.accounts.passkeys import new_handle
    from storage.audit import append_to_audit
    from storage.billing.settings import MICRO_CENTS, BillingSettings, cost_cents
    from storage.builds.build_history import ServiceFailure
    from storage.builds.search import MOST_LETTERS, SearchResults
    from storage.clock_steps import CONFIRM, ClockJump, step_text
    from storage.copying import FrozenDatabase, check_database, frozen, up_to_date
    from storage.data_classes import described, example, hidden, immutable, shown_as
    from storage.database.clock import Clock, SystemClock, Timeline, boot_id, duration
    from storage.database.schema import schema_of_release
    from storage.documents import Page, Uuid, document_of, record_of, showing, shown_fields, timestamp
    from storage.errors import (
        AlreadyInitialized,
        ApprovalNotAwaited,
        BuildBusy,
        BuildFinished,
        BuildNotFinished,
        CouponClaimed,
        CouponExhausted,
        CouponExpired,
        CouponTaken,
        CouponUnknown,
        DatabaseBusy,
        DatabaseDamaged,
        DatabaseGone,
        DatabaseUnavailable,
        DatabaseUnreadable,
        EmailInvalid,
        EmailTaken,
        EmailUnproven,
        EnvironmentExists,
        GateNotAwaited,
        HostConnectedElsewhere,
        InviteInvalid,
        InviteUnacceptable,
        JobsJoined,
        KeyUnreadable,
        KeyUsed,
        LastIdentity,
        LastOwner,
        LastPasskey,
        ManifestUnreadable,
        MemberNotFound,
        MergeQueued,
        MergeQueueFull,
        MigrationFailed,
        NameUnusable,
        NotInitialized,
        PasskeyTaken,
        PipelineBusy,
        PipelineGone,
        RepositoryConnected,
        RoleInsufficient,
        SchemaTooNew,
        SealBroken,
        SecretInvalid,
        SecretNotAllowed,
        SecretNotFound,
        SecretUnavailable,
        SignUpClosed,
        SlugTaken,
        SoleOwner,
        SourceGone,
        StorageClosed,
        StorageError,
        TooManyBuilds,
        TooManyEnvironments,
        TooManyInvites,
        TooManyNotifications,
        TooManyOrganizations,
        TooManyPasskeys,
        TooManySchedules,
        UsageTooLong,
        UserUnknown,
        error_reason,
    )
    from storage.files.artifacts import ArtifactFiles
    from storage.files.kinds import FILE_KINDS, RENDER_LOG, FileKind, why_no_files
    from storage.files.log_writer import LogWriter, OutputShare
    from storage.files.logs import JobLog, LogChunk, LogFiles
    from storage.files.masking import Masker
    from storage.files.retention import KeptFiles, Retention
    from storage.json_model import JsonModel
    from storage.patterns import glob_matches, pattern
    from storage.pipelines.clone_urls import repo_name
    from storage.records.accounts import (
        Caller,
        ForkApproval,
        Identity,
        Invite,
        InviteDraft,
        Member,
        NewPasskey,
        Organization,
        OrganizationChanges,
        Passkey,
        PasskeyChallenge,
        PasskeyPurpose,
        ProvenIdentity,
        Role,
        Scope,
        SessionOrigin,
        SignInLink,
        SignInLinkKind,
        SignUpMode,
        SignUpPolicy,
        Token,
        TokenKind,
        TokenLimits,
        User,
    )
    from storage.records.audit import AuditEntry, AuditFilter
    from storage.records.billing import (
        BuildUsage,
        Coupon,
        DayUsage,
        Discrepancy,
        EventEffect,
        EventOutcome,
        LeaseUsage,
        LedgerEntry,
        LedgerSource,
        NewCoupon,
        NewPaymentEvent,
        Payment,
        PaymentEvent,
        PaymentState,
        RefundReport,
        RefundTotal,
        SessionReport,
        Usage,
    )
    from storage.records.builds import (
        Artifact,
        Build,
        BuildPeople,
        BuildState,
        Concurrency,
        FetchedSource,
        FlakyStep,
        KeptFolder,
        KeyUse,
        ListedBuild,
        NewArtifact,
        NewBuild,
        NewKeptFolder,
        PastArtifact,
        PastBuild,
        Priority,
        Render,
        Rendered,
        RequestKey,
        SlowStep,
        VerifiedEvent,
        WaitsFor,
        pull_request_ref,
    )
    from storage.records.environments import (
        ENVIRONMENT_NAME,
        GATE_SECONDS,
        DeployedEnvironment,
        Deployment,
        Environment,
        EnvironmentChanges,
        Gate,
        GateState,
        NewEnvironment,
    )
    from storage.records.jobs import (
        Annotation,
        AnnotationLevel,
        Attempt,
        AwaitingJob,
        BuildErrorCode,
        Dependency,
        Edge,
        EdgeKind,
        GivenOutputs,
        Job,
        JobErrorCode,
        JobOutputs,
        JobState,
        JobSummary,
        NewJob,
        Outcome,
        QueuedJob,
        Service,
        Shape,
        ShownAnnotation,
        ShownSummary,
        Turn,
    )
    from storage.records.leases import (
        PROVIDERS,
        CacheEntry,
        Hold,
        HoldEnd,
        KeptDisk,
        Lease,
        LeaseState,
        NewCacheEntry,
        ProviderName,
        Snapshot,
    )
    from storage.records.notifications import (
        BuildEvent,
        CreatedNotification,
        DeliveryState,
        EndedBuild,
        Endpoint,
        EndpointAnswer,
        FailingNotification,
        Letter,
        Mail,
        MailTotals,
        NewNotification,
        Notification,
        NotificationDelivery,
        NotificationKind,
        ToldEnd,
    )
    from storage.records.pipelines import (
        MAX_SECRET_BYTES,
        MOST_SCHEDULES,
        CancelSuperseded,
        Declaration,
        DeclaringRepository,
        Favourite,
        FoundPerson,
        FoundPipeline,
        NewPipeline,
        NewPipelineTrigger,
        NewSchedule,
        Pipeline,
        PipelineChanges,
        PipelineStatus,
        PipelineTrigger,
        Schedule,
        ScheduleChanges,
        Secret,
        SecretLimitChanges,
        SecretLimits,
        SecretScope,
        Standing,
        TriggerState,
        Visibility,
    )
    from storage.records.source_hosts import (
        BuildOrigin,
        CommitCheck,
        Delivery,
        DeployKey,
        GitCredential,
        HostConnection,
        MergeAgain,
        MergeState,
        NewHostConnection,
        NewMerge,
        NewOrigin,
        OriginEvent,
        PullRequestBuild,
        PushOutcome,
        QueuedMerge,
        RemoteRepository,
        Repository,
        SkippedPipeline,
    )
    from storage.settings import (
        BuildSettings,
        Range,
        is_secure_address,
        networks_of,
        required_setting,
        setting,
        setting_declaration,
    )
    from storage.source_hosts.repositories import GIT
    from storage.store import Storage
    from storage.vault import Vault
else:
    __getattr__ = on_first_use(__name__)
