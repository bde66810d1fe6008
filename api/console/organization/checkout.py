"""Paying at the payment provider: the form that begins it, and the pages at which it ends."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from api.console.pages import Page
from api.errors.catalog import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import falcon

    from api.console.site import Site

_AMOUNT = re.compile(r"([0-9]{1,9})(?:[.,]([0-9]{2}))?", re.ASCII)


class CheckoutEndPage(Page):
    """``/billing/paid`` and ``/billing/canceled``, to which the payment provider sends a browser back.

    They know nothing of the payment, so that nobody learns or fakes anything with their addresses.
    """

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get_paid(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Thank for a payment."""
        self._show(req, resp, "organization/paid")

    def on_get_canceled(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Say that nothing was paid."""
        self._show(req, resp, "organization/not_paid")

    def _show(self, req: falcon.Request, resp: falcon.Response, template: str) -> None:
        self._site.cookies.caller(req)
        self._site.pages.show(req, resp, template)


def checkout_of(fields: Mapping[str, str]) -> dict[str, int]:
    """Return the body of ``createCheckout`` for its form. Raises ApiError ``invalid_amount``."""
    amount = _AMOUNT.fullmatch(fields.get("amount", "").strip())
    if amount is None:
        raise ApiError("invalid_amount", "the amount must be like 25 or 25.50")
    return {"amount_cents": int(amount[1]) * 100 + int(amount[2] or 0)}
