"""`ci-daemon coupon`: credit that organizations redeem with a code."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

import click

from api.operations import billing
from ci_daemon.command.support.body_options import body_option, given
from ci_daemon.command.support.command_classes import Group
from ci_daemon.command.support.options import CENTS, note_option
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.terminal import counted
from storage import CouponTaken, NewCoupon, document_of

_COLUMNS = ("code", "credit_cents", "redemptions", "max_redemptions", "expires_at", "note")
_CODE = re.compile(r"[A-Z0-9][A-Z0-9-]{2,62}[A-Z0-9]", re.ASCII | re.IGNORECASE)


def _valid_code(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
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
    raise click.BadParameter(
        f'"{value}" is not a day on which a coupon can end: give today or a later one, like 2030-12-31'
    )


@click.group(cls=Group)
def coupon() -> None:
    """Coupons: credit that each organization can redeem once with a code."""


@coupon.command()
@click.argument("code", callback=_valid_code)
@click.argument("cents", type=CENTS)
@body_option(NewCoupon, "max_redemptions", "--max")
@click.option(
    "--expires", metavar="DATE", callback=_end_of_day, help="The last day, in UTC, on which it may be redeemed."
)
@note_option("What it is for, as the members of an organization that redeems it read it in their transactions.")
@pass_session
def create(
    session: Session,
    /,
    *,
    code: str,
    cents: int,
    expires: datetime | None,
    note: str | None,
    **bounds: Any,  # noqa: ANN401 - fields of the body
) -> None:
    """Create the coupon CODE, which gives each organization that redeems it CENTS (whole cents), once."""
    body = NewCoupon(code, cents, expires_at=expires, note=note, **given(bounds))
    with session.owners_door() as door:
        try:
            created = door.perform(billing.create_coupon, {"code": code}, body)
        except CouponTaken as error:
            raise Failure(f"{error}: choose another code") from None
    words = f"created the coupon {created.code}, worth {counted(created.credit_cents, 'cent')}"
    session.answer(document_of(created), words)


@coupon.command(name="list", reads=True)
@pass_session
def list_coupons(session: Session) -> None:
    """List the coupons, oldest first, with the number of redemptions of each."""
    with session.owners_door() as door:
        session.records(
            door.rows(billing.list_coupons, {}), _COLUMNS, "there are no coupons: `ci-daemon coupon create` makes one"
        )


@coupon.command()
@click.argument("code")
@pass_session
def disable(session: Session, *, code: str) -> None:
    """Make the coupon CODE expire now. Credit that was redeemed stays."""
    with session.owners_door() as door:
        ended = door.perform(billing.disable_coupon, {"code": code})
    session.answer(document_of(ended), f"the coupon {ended.code} has expired")
