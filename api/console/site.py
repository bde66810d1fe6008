"""The parts of the service that pages of pipelines, builds and logs share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.console.pages import money
from api.middleware.authentication import Access
from api.operations.service import WithService
from api.sign_in.visitor import Visitor
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable

    import falcon

    from api.console.cookies import Cookies
    from api.console.pages import Pages
    from api.http.slots import StreamSlots
    from api.logs.log import LogRanges
    from api.middleware.client_addresses import ClientAddresses
    from api.middleware.rate_limits import RateLimits
    from api.operations import Box
    from api.operations.service import Service
    from api.paging import Pager
    from api.sign_in.relying_party import RelyingParty


@immutable
class Site(WithService):
    """The service, pages and cookies; ``access`` is that of the API, for the caller by the cookie.

    ``url`` is that of pages, ``api_url`` that of the API, and ``by_token`` the access of callers with a token.
    """

    service: Service
    pages: Pages
    cookies: Cookies
    url: str
    api_url: str
    by_token: Access
    rates: RateLimits
    party: RelyingParty
    ranges: LogRanges
    slots: StreamSlots
    addresses: ClientAddresses
    pager: Pager
    currency: str
    owners_box: Callable[[], Box] | None
    """Returns the host, for the pages of its owner alone; None if there are none."""

    def amount(self, cents: int) -> str:
        """Return what something cost; empty where builds need no credit, as amounts say nothing there."""
        return f"{money(cents)} {self.currency}" if self.storage.billing.require_credit else ""

    @property
    def access(self) -> Access:
        """Access to records for the caller whose session the browser has."""
        return Access(self.storage, self.cookies)

    def is_member(self, req: falcon.Request, organization_id: int) -> bool:
        """Tell whether the browser's caller is a member of an organization."""
        caller = self.access.optional_caller(req)
        return caller is not None and self.access.is_member(caller, organization_id)

    def visitor(self, req: falcon.Request, resp: falcon.Response) -> Visitor:
        """Return the browser that a person signs in from."""
        return Visitor(req, resp, self.storage, self.rates)

    def form_token(self, req: falcon.Request) -> str:
        """Return the token for forms; empty without a session, when pages show none."""
        return self.cookies.form_token(req) if self.cookies.caller(req) is not None else ""
