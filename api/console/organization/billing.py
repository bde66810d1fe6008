"""The billing of an organization: balance, coupons, the cost by day and by build, the ledger."""

from __future__ import annotations

import json
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING

from api.console.pages import Page, whole_number
from storage import LedgerSource, Role, UsageTooLong

if TYPE_CHECKING:
    from collections.abc import Sequence

    import falcon

    from api.console.site import Site
    from storage import BuildUsage, DayUsage

_DAYS = 30
_BUILDS = 20
_JOBS = 50
_ENTRIES = 50
_SOURCES = {
    LedgerSource.PAYMENT_TOPUP: "Payment",
    LedgerSource.COUPON_REDEMPTION: "Coupon",
    LedgerSource.ADMIN_GRANT: "Grant of the host's owner",
    LedgerSource.VM_LEASE_DEBIT: "VM lease debit",
    LedgerSource.REFUND: "Refund",
}


class BillingPage(Page):
    """``/{org}/billing``."""

    def __init__(self, site: Site) -> None:
        self._site, payments = site, site.serving.payments
        self._currency = None if payments is None else payments.settings.currency.upper()

    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """Show the balance, the last thirty days, and a page of the ledger before the entry ``before``."""
        member = self._site.access.member(req, org)
        storage, organization = self._site.storage, member.organization
        now = self._site.clock.now()
        entries = storage.ledger.page(organization.id, _ENTRIES, whole_number(req.get_param("before")))
        days = storage.usage.series(organization.id, now - timedelta(days=_DAYS), now)
        self._site.pages.show(
            req,
            resp,
            "organization/billing",
            organization=organization,
            admin=member.role.covers(Role.ADMIN),
            balance=storage.ledger.balance(organization.id),
            entries=entries.rows,
            more=entries.next_key,
            builds=self._breakdown(organization.id, now),
            most_jobs=_JOBS,
            spent=sum(day.usage.total_cents for day in days),
            days=_DAYS,
            plot=_plot(days),
            sources=_SOURCES,
            currency=self._currency,
            form_token=self._site.form_token(req),
        )

    def _breakdown(self, organization_id: int, now: datetime) -> Sequence[BuildUsage]:
        """Return the builds of the last day with leases; none if they are too many to list."""
        try:
            return self._site.storage.usage.breakdown(organization_id, now - timedelta(days=1), now)[:_BUILDS]
        except UsageTooLong:
            return ()


def _plot(days: Sequence[DayUsage]) -> str:
    """Return the cost of each day as JSON for the script of plots."""
    return json.dumps(
        {
            "time": True,
            "x": [int(datetime.combine(day.date, time(), UTC).timestamp()) for day in days],
            "series": [{"label": "Cost", "unit": "", "values": [day.usage.total_cents / 100 for day in days]}],
        }
    )
