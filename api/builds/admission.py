"""Admission of builds that callers make (wire-decisions.md, "Creating a build")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors import has_credit
from api.errors.catalog import ApiError
from storage import TooManyBuilds

if TYPE_CHECKING:
    from storage import Pipeline, Storage

_RETRY = {"Retry-After": "60"}


def admit_manual_build(storage: Storage, pipeline: Pipeline) -> None:
    """Raise ApiError if a pipeline accepts no build of a caller.

    Such a build is manual whatever its ``source`` says. The error is
    ``pipeline_not_found``, ``pipeline_manual_disabled``, ``billing_insufficient_balance`` or ``too_many_builds``.
    """
    if storage.declarations.archived(pipeline.id):
        message = f'the repository of the pipeline "{pipeline.slug}" no longer declares it, so it accepts no builds'
        raise ApiError("pipeline_not_found", message)
    if not pipeline.allow_manual:
        raise ApiError(
            "pipeline_manual_disabled",
            f'the pipeline "{pipeline.slug}" accepts no manual builds; set its allow_manual to true',
        )
    require_credit_and_room(storage, pipeline.organization_id)


def require_credit_and_room(storage: Storage, organization_id: int) -> None:
    """Raise ApiError if an organization may not have another build now.

    The error is ``billing_insufficient_balance`` if credit is required and there is none, or ``too_many_builds``.
    """
    _require_credit(storage, organization_id)
    try:
        storage.build_room.require(organization_id)
    except TooManyBuilds as error:
        message = f"{error}: try again when some have ended, or cancel some"
        raise ApiError("too_many_builds", message, headers=_RETRY) from None


def _require_credit(storage: Storage, organization_id: int) -> None:
    if has_credit(storage, organization_id):
        return
    balance, organization = storage.ledger.balance(organization_id), storage.organizations.by_id(organization_id)
    if organization is not None:
        raise ApiError(
            "billing_insufficient_balance",
            f"the balance is {balance} cents, and this service requires credit: redeem a coupon, or have the"
            f" operator run `ci-daemon ledger grant {organization.slug} CENTS`",
        )
