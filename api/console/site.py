"""The parts of the service that pages of pipelines, builds and logs share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.middleware.authentication import Access
from storage import immutable

if TYPE_CHECKING:
    import falcon

    from api.console.cookies import Cookies
    from api.console.pages import Pages
    from api.engine import EngineInterface
    from api.operations.operation import Service, Serving
    from storage import Clock, Storage


@immutable
class Site:
    """The service, pages and cookies; ``access`` is that of the API, for the caller by the cookie."""

    service: Service
    pages: Pages
    cookies: Cookies

    @property
    def serving(self) -> Serving:
        """The parts for callers of HTTP and for browsers."""
        return self.service.own

    @property
    def storage(self) -> Storage:
        """The storage of the service."""
        return self.service.storage

    @property
    def clock(self) -> Clock:
        """The clock of the service."""
        return self.service.clock

    @property
    def engine(self) -> EngineInterface:
        """The running builds."""
        return self.service.engine

    @property
    def access(self) -> Access:
        """Access to records for the caller whose session the browser has."""
        return Access(self.storage, self.cookies)

    def is_member(self, req: falcon.Request, organization_id: int) -> bool:
        """Tell whether the browser's caller is a member of an organization."""
        caller = self.access.optional_caller(req)
        return caller is not None and self.access.is_member(caller, organization_id)

    def form_token(self, req: falcon.Request) -> str:
        """Return the token for forms; empty without a session, when pages show none."""
        return self.cookies.form_token(req) if self.cookies.caller(req) is not None else ""
