"""Peewee models, bound to no database. Migrations create the tables; a test compares the two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.facade import on_first_use

if TYPE_CHECKING:
    from storage.models.accounts import (
        CliLoginRow,
        IdentityRow,
        InviteRow,
        MembershipRow,
        OrganizationRow,
        PasskeyChallengeRow,
        PasskeyHandleRow,
        PasskeyRow,
        SignInLinkRow,
        TokenRow,
        UserRow,
    )
    from storage.models.audit import AuditRow, AuditSetBackRow
    from storage.models.billing import (
        CouponRow,
        LedgerRow,
        PaymentEventRow,
        PaymentRefundRow,
        PaymentRow,
        PaymentTotalRow,
        RedemptionRow,
        RerunDebitRow,
    )
    from storage.models.builds import ArtifactRow, AttemptRow, BuildRow, EdgeRow, JobRow
    from storage.models.idempotency import KeyRow
    from storage.models.leases import CacheRow, HoldRow, LeaseRow, SnapshotRow
    from storage.models.notifications import MailOptOutRow, MailRow, NotificationDeliveryRow, NotificationRow
    from storage.models.pipelines import PipelineRow, ScheduleRow, SecretRow
    from storage.models.renders import DeclarationRow, RenderedRow, RenderRow, RunnerTokenRow
    from storage.models.source_hosts import (
        BuildOriginRow,
        DeliveryRow,
        HostConnectionRow,
        PushOutcomeRow,
        RepositoryCredentialRow,
        RepositoryHeadRow,
        RepositoryRow,
    )
    from storage.models.switches import ClockRow, SwitchRow, TracesSentRow
else:
    __getattr__ = on_first_use(__name__)

__all__ = [
    "ArtifactRow",
    "AttemptRow",
    "AuditRow",
    "AuditSetBackRow",
    "BuildOriginRow",
    "BuildRow",
    "CacheRow",
    "CliLoginRow",
    "ClockRow",
    "CouponRow",
    "DeclarationRow",
    "DeliveryRow",
    "EdgeRow",
    "HoldRow",
    "HostConnectionRow",
    "IdentityRow",
    "InviteRow",
    "JobRow",
    "KeyRow",
    "LeaseRow",
    "LedgerRow",
    "MailOptOutRow",
    "MailRow",
    "MembershipRow",
    "NotificationDeliveryRow",
    "NotificationRow",
    "OrganizationRow",
    "PasskeyChallengeRow",
    "PasskeyHandleRow",
    "PasskeyRow",
    "PaymentEventRow",
    "PaymentRefundRow",
    "PaymentRow",
    "PaymentTotalRow",
    "PipelineRow",
    "PushOutcomeRow",
    "RedemptionRow",
    "RenderRow",
    "RenderedRow",
    "RepositoryCredentialRow",
    "RepositoryHeadRow",
    "RepositoryRow",
    "RerunDebitRow",
    "RunnerTokenRow",
    "ScheduleRow",
    "SecretRow",
    "SignInLinkRow",
    "SnapshotRow",
    "SwitchRow",
    "TokenRow",
    "TracesSentRow",
    "UserRow",
]
