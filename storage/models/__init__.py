"""Peewee models, bound to no database. Migrations create the tables; a test compares the two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.facade import on_first_use

if TYPE_CHECKING:
    from storage.models.accounts import (
        CliLoginRow,
        InviteRow,
        MembershipRow,
        OrganizationRow,
        PipelineRow,
        SignInLinkRow,
        TokenRow,
        UserRow,
    )
    from storage.models.artifacts import ArtifactRow
    from storage.models.audit import AuditRow
    from storage.models.builds import AttemptRow, BuildRow, EdgeRow, JobRow
    from storage.models.cache import CacheRow
    from storage.models.coupons import CouponRow, RedemptionRow
    from storage.models.holds import HoldRow
    from storage.models.idempotency import KeyRow
    from storage.models.identities import IdentityRow
    from storage.models.leases import LeaseRow, LedgerRow, RerunDebitRow, SnapshotRow
    from storage.models.mail import MailRow
    from storage.models.notifications import MailOptOutRow, NotificationDeliveryRow, NotificationRow
    from storage.models.passkeys import PasskeyChallengeRow, PasskeyHandleRow, PasskeyRow
    from storage.models.payments import PaymentEventRow, PaymentRefundRow, PaymentRow, PaymentTotalRow
    from storage.models.renders import DeclarationRow, RenderedRow, RenderRow, RunnerTokenRow
    from storage.models.schedules import ScheduleRow
    from storage.models.secrets import SecretRow
    from storage.models.source_hosts import (
        BuildOriginRow,
        DeliveryRow,
        HostConnectionRow,
        RepositoryCredentialRow,
        RepositoryHeadRow,
        RepositoryRow,
    )
    from storage.models.switches import SwitchRow
    from storage.models.traces import TracesSentRow
else:
    __getattr__ = on_first_use(__name__)

__all__ = [
    "ArtifactRow",
    "AttemptRow",
    "AuditRow",
    "BuildOriginRow",
    "BuildRow",
    "CacheRow",
    "CliLoginRow",
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
