"""`ci-daemon coupon`: credit that organizations redeem with a code."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import click

from ci_daemon.command.cents import CENTS
from ci_daemon.command.instants import on_the_wire
from ci_daemon.command.session import Failure, Session, pass_session
from ci_daemon.command.style import Group
from ci_daemon.command.texts import note_option
from storage import CouponTaken, CouponUnknown, NewCoupon

if TYPE_CHECKING:
    from storage import Coupon

__all__ = ["coupon"]

_COLUMNS = ("code", "credit_cents", "redemptions", "max_redemptions", "expires_at", "note")
_CODE = re.compile(r"[A-Z0-9][A-Z0-9-]{2,62}[A-Z0-9]", re.ASCII | re.IGNORECASE)
_MOST_REDEMPTIONS = 10**9


def _code(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    if not _CODE.fullmatch(value):
        raise click.BadParameter("give 4 to 64 letters a-z, digits and dashes, with no dash at either end")
    return value


def _end_of_day(_context: click.Context, _parameter: click.Parameter, value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        end = datetime.combine(date.fromisoformat(value), datetime.min.time(), UTC) + timedelta(days=1)
        if end > datetime.now(UTC):
            return end
    except (ValueError, OverflowError):
        pass
    raise click.BadParameter(f'"{value}" is neither today nor a day to come: give one like 2030-12-31')


@click.group(cls=Group)
def coupon() -> None:
    """Coupons: credit that each organization can redeem once with a code."""


@coupon.command()
@click.argument("code", callback=_code)
@click.argument("cents", type=CENTS)
@click.option(
    "--max",
    "most",
    metavar="N",
    type=click.IntRange(1, _MOST_REDEMPTIONS),
    help="How many organizations may redeem it; without, all: and everybody may make organizations.",
)
@click.option(
    "--expires", metavar="DATE", callback=_end_of_day, help="The last day, in UTC, on which it may be redeemed."
)
@note_option("What it is for, as the members of those who redeem it read it in their transactions.")
@pass_session
def create(
    session: Session, *, code: str, cents: int, most: int | None, expires: datetime | None, note: str | None
) -> None:
    """Create the coupon CODE, which gives each organization that redeems it CENTS (whole cents), once."""
    with session.records() as storage:
        try:
            made = storage.coupons.create(NewCoupon(code, cents, most, expires, note))
        except CouponTaken as error:
            raise Failure(f"{error}: choose another code") from None
    session.answer(_document(made), f"made the coupon {made.code}, which gives {made.credit_cents} cents")


@coupon.command(name="list", reads=True)
@pass_session
def list_coupons(session: Session) -> None:
    """List the coupons, oldest first, with the number of redemptions of each."""
    with session.records() as storage:
        documents = [_document(each) for each in storage.coupons.all()]
    session.table(documents, _COLUMNS, "there is no coupon: `ci-daemon coupon create` makes one")


@coupon.command()
@click.argument("code")
@pass_session
def disable(session: Session, *, code: str) -> None:
    """Make the coupon CODE expire now. Credit that was redeemed stays."""
    with session.records() as storage:
        try:
            ended = storage.coupons.disable(code)
        except CouponUnknown:
            raise Failure(f"there is no coupon {code}: `ci-daemon coupon list` shows those there are") from None
    document = _document(ended)
    session.answer(document, f"the coupon {ended.code} is over since {document['expires_at']}")


def _document(each: Coupon) -> dict[str, object]:
    return {
        "code": each.code,
        "credit_cents": each.credit_cents,
        "redemptions": each.redemptions,
        "max_redemptions": each.max_redemptions,
        "expires_at": each.expires_at and on_the_wire(each.expires_at),
        "note": each.note,
        "created_at": on_the_wire(each.created_at),
    }
