"""Credit: payments, as the provider reports them, and coupons (wire-decisions.md, "Billing").

Events come in any order, twice, and at once. What a payment credits and what of it went back depends only on the set of
events that came: a paid session stays paid, a failed refund stays failed, and totals only grow. The ledger gets the
difference to what it has.
"""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING, assert_never

import peewee

from storage.billing.ledger import refunded
from storage.database.clock import to_micros
from storage.database.statements import Columns, Query, Slots, Write, first, insert_into, slot, written
from storage.errors import CouponClaimed, CouponExhausted, CouponExpired, CouponTaken, CouponUnknown
from storage.models.accounts import OrganizationRow
from storage.models.billing import (
    CouponRow,
    LedgerRow,
    PaymentEventRow,
    PaymentRefundRow,
    PaymentRow,
    PaymentTotalRow,
    RedemptionRow,
)
from storage.records.billing import (
    Coupon,
    EventEffect,
    EventOutcome,
    LedgerSource,
    NewCoupon,
    Payment,
    PaymentEvent,
    PaymentState,
    Redemption,
    RefundReport,
    RefundTotal,
    SessionReport,
)

if TYPE_CHECKING:
    from storage.billing.ledger import Ledger
    from storage.database.connection import Database
    from storage.records.billing import NewPaymentEvent


_PAYMENT = Columns.of(Payment, PaymentRow, organization_id=PaymentRow.organization)
_EVENT = Columns.of(PaymentEvent, PaymentEventRow)


class Payments:
    """Payment sessions and the provider's events. Safe in any thread."""

    def __init__(self, database: Database, ledger: Ledger) -> None:
        self._database = database
        self._ledger = ledger
        payments, events = PaymentRow.select(*_PAYMENT.selected), PaymentEventRow.select(*_EVENT.selected)
        of_session = PaymentRow.session == slot("session")
        self._by_session = Query(database, lambda: payments.where(of_session), _PAYMENT)
        self._event = Query(database, lambda: events.where(PaymentEventRow.event == slot("event")), _EVENT)
        self._organization = Query(
            database,
            lambda: OrganizationRow.select(OrganizationRow.id).where(OrganizationRow.uuid == slot("uuid")),
            first,
        )
        self._slug = Query(
            database,
            lambda: OrganizationRow.select(OrganizationRow.slug).where(OrganizationRow.id == slot("id")),
            lambda row: str(row[0]),
        )
        self._open = Write(database, lambda: insert_into(PaymentRow).on_conflict_ignore())
        self._report = Write(
            database,
            lambda: PaymentRow.update(
                {
                    PaymentRow.state: slot("state"),
                    PaymentRow.amount_cents: slot("amount_cents"),
                    PaymentRow.intent: peewee.fn.COALESCE(slot("intent"), PaymentRow.intent),
                }
            ).where(of_session),
        )
        self._insert_refund = Write(database, lambda: insert_into(PaymentRefundRow).on_conflict_ignore())
        self._fail_refund = Write(
            database,
            lambda: PaymentRefundRow.update({PaymentRefundRow.failed: 1}).where(
                PaymentRefundRow.refund == slot("refund")
            ),
        )
        self._insert_total = Write(database, lambda: insert_into(PaymentTotalRow).on_conflict_ignore())
        larger = peewee.fn.MAX(PaymentTotalRow.refunded_cents, slot("refunded_cents"))
        self._raise_total = Write(
            database,
            lambda: PaymentTotalRow.update({PaymentTotalRow.refunded_cents: larger}).where(
                PaymentTotalRow.intent == slot("intent")
            ),
        )
        entered = LedgerRow.select(peewee.fn.COALESCE(peewee.fn.SUM(LedgerRow.amount_cents), 0)).where(
            LedgerRow.payment == PaymentRow.id, LedgerRow.source == LedgerSource.REFUND
        )
        self._paid = Query(
            database,
            lambda: (
                PaymentRow.select(*_PAYMENT.selected, peewee.Expression(refunded(), "+", entered))
                .where(PaymentRow.intent == slot("intent"), PaymentRow.state == PaymentState.PAID)
                .order_by(PaymentRow.id)
                .limit(1)
            ),
            lambda row: (_PAYMENT(row[:-1]), int(row[-1])),
        )
        self._insert_event = Write(database, lambda: insert_into(PaymentEventRow))

    def open(self, session: str, organization_id: int, amount_cents: int) -> None:
        """Note a session that was begun at the provider; one that an event has named already stays as it is."""
        with self._database.write():
            self._open.run(
                session=session,
                organization_id=organization_id,
                state=PaymentState.OPEN,
                amount_cents=amount_cents,
                intent=None,
                created_at=self._database.now(),
            )

    def by_session(self, session: str) -> Payment | None:
        """Return a payment by the provider's name of its session."""
        return self._by_session.one(session=session)

    def event(self, event: str) -> PaymentEvent | None:
        """Return what is kept of an event."""
        return self._event.one(event=event)

    def record(self, new: NewPaymentEvent) -> EventOutcome:
        """Keep an event, and credit or debit what follows from it; one that is known already changes nothing."""
        with self._database.write():
            known = self.event(new.event)
            if known is not None:
                return EventOutcome(known.effect, repeated=True)
            outcome = self._apply(new)
            self._insert_event.run(
                event=new.event,
                type=new.type,
                payload=dumps(new.payload),
                effect=outcome.effect,
                received_at=self._database.now(),
            )
            return outcome

    def _apply(self, new: NewPaymentEvent) -> EventOutcome:
        match new.report:
            case None:
                effect = EventEffect.NOTED if new.reason is None else EventEffect.IGNORED
                return EventOutcome(effect, reason=new.reason)
            case SessionReport():
                return self._apply_session(new.report)
            case RefundReport():
                return self._apply_refund(new.report)
            case RefundTotal():
                return self._apply_total(new.report)
            case _:
                assert_never(new.report)

    def _apply_session(self, report: SessionReport) -> EventOutcome:
        organization_id = self._organization.one(uuid=report.organization_uuid)
        if organization_id is None:
            reason = f"no organization here has the UUID {report.organization_uuid}"
            return EventOutcome(EventEffect.IGNORED, reason=reason)
        self.open(report.session, organization_id, report.amount_cents)
        payment = written(self.by_session(report.session))
        slug = written(self._slug.one(id=payment.organization_id))
        if payment.organization_id != organization_id:
            reason = f"the session {report.session} was begun for another organization"
            return EventOutcome(EventEffect.IGNORED, slug, reason)
        if not report.state.follows(payment.state):
            return EventOutcome(EventEffect.NOTED, slug)
        self._report.run(
            session=report.session, state=report.state, amount_cents=report.amount_cents, intent=report.intent
        )
        if report.state is not PaymentState.PAID:
            return EventOutcome(EventEffect.NOTED, slug)
        self._ledger.append(
            organization_id,
            report.amount_cents,
            LedgerSource.PAYMENT_TOPUP,
            f"payment {report.session}",
            payment_id=payment.id,
        )
        if report.intent is not None:
            self._settle(report.intent, "refunded before its payment was reported")
        return EventOutcome(EventEffect.CREDITED, slug)

    def _apply_refund(self, report: RefundReport) -> EventOutcome:
        self._insert_refund.run(
            refund=report.refund, intent=report.intent, amount_cents=report.amount_cents, failed=report.failed
        )
        if report.failed:
            self._fail_refund.run(refund=report.refund)
        why = f"refund {report.refund} failed" if report.failed else f"refund {report.refund}"
        return self._settle(report.intent, why)

    def _apply_total(self, report: RefundTotal) -> EventOutcome:
        self._insert_total.run(intent=report.intent, refunded_cents=report.refunded_cents)
        self._raise_total.run(intent=report.intent, refunded_cents=report.refunded_cents)
        return self._settle(report.intent, "refunded")

    def _settle(self, intent: str, why: str) -> EventOutcome:
        """Enter the refunds of a payment since the last entry, or take them back if they failed."""
        found = self._paid.one(intent=intent)
        if found is None:
            return EventOutcome(EventEffect.NOTED, reason=f"no paid session is known of the payment {intent}")
        payment, cents = found
        slug = written(self._slug.one(id=payment.organization_id))
        if cents == 0:
            return EventOutcome(EventEffect.NOTED, slug)
        self._ledger.append(
            payment.organization_id,
            -cents,
            LedgerSource.REFUND,
            f"payment {payment.session}: {why}",
            payment_id=payment.id,
        )
        return EventOutcome(EventEffect.REFUNDED, slug)


_REDEMPTIONS = RedemptionRow.select(peewee.fn.COUNT(peewee.SQL("*"))).where(RedemptionRow.coupon == CouponRow.id)
_COUPON = Columns.of(Coupon, CouponRow, redemptions=(_REDEMPTIONS, int))
_NEW: Slots[NewCoupon] = Slots(NewCoupon, CouponRow)


class Coupons:
    """Coupons and their redemptions. Codes ignore case and spaces. Safe in any thread."""

    def __init__(self, database: Database, ledger: Ledger) -> None:
        self._database = database
        self._ledger = ledger
        coupons = CouponRow.select(*_COUPON.selected)
        self._all = Query(database, lambda: coupons.order_by(CouponRow.id), _COUPON)
        self._by_code = Query(database, lambda: coupons.where(CouponRow.code == slot("code")), _COUPON)
        self._insert = Write(database, lambda: insert_into(CouponRow))
        self._end = Write(
            database, lambda: CouponRow.update({CouponRow.expires_at: slot("now")}).where(CouponRow.id == slot("id"))
        )
        self._claim = Query(
            database,
            lambda: RedemptionRow.select(RedemptionRow.ledger_entry).where(
                RedemptionRow.coupon == slot("coupon_id"), RedemptionRow.organization == slot("organization_id")
            ),
            first,
        )
        self._redeem = Write(database, lambda: insert_into(RedemptionRow))

    def create(self, new: NewCoupon) -> Coupon:
        """Create a coupon. Raises CouponTaken."""
        code = _plain(new.code)
        with self._database.write():
            if self._by_code.one(code=code) is not None:
                raise CouponTaken(f"there is a coupon {code} already")
            self._insert.run(**_NEW(new) | {"code": code, "created_at": self._database.now()})
            return written(self._by_code.one(code=code))

    def all(self) -> list[Coupon]:
        """Return every coupon, oldest first."""
        return self._all.all()

    def disable(self, code: str) -> Coupon:
        """Expire a coupon now, unless it has expired already. Raises CouponUnknown."""
        with self._database.write():
            coupon = self._named(code)
            if not self._expired(coupon):
                self._end.run(id=coupon.id, now=self._database.now())
            return self._named(code)

    def redeem(self, code: str, organization_id: int) -> Redemption:
        """Credit an organization with a coupon.

        Raises CouponUnknown, CouponClaimed, CouponExpired or CouponExhausted. CouponClaimed has precedence: an
        organization that redeemed the coupon gets it even if the coupon has expired since.
        """
        with self._database.write():
            coupon = self._named(code)
            if self._claim.one(coupon_id=coupon.id, organization_id=organization_id) is not None:
                raise CouponClaimed("the organization has redeemed this coupon already")
            if self._expired(coupon):
                raise CouponExpired("the coupon has expired")
            if coupon.max_redemptions is not None and coupon.redemptions >= coupon.max_redemptions:
                raise CouponExhausted("the coupon has been redeemed as often as it allows")
            described = f"coupon {coupon.code}" if coupon.note is None else f"coupon {coupon.code}: {coupon.note}"
            source = LedgerSource.COUPON_REDEMPTION
            entry = self._ledger.append(organization_id, coupon.credit_cents, source, described)
            self._redeem.run(coupon_id=coupon.id, organization_id=organization_id, ledger_entry_id=entry.id)
            return Redemption(coupon.credit_cents, self._ledger.balance(organization_id))

    def _named(self, code: str) -> Coupon:
        coupon = self._by_code.one(code=_plain(code))
        if coupon is None:
            raise CouponUnknown("there is no coupon with this code")
        return coupon

    def _expired(self, coupon: Coupon) -> bool:
        return coupon.expires_at is not None and to_micros(coupon.expires_at) <= self._database.now()


def _plain(code: str) -> str:
    return "".join(code.split()).upper()
