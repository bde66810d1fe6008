"""The audit of an organization: who changed what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.console.pages import Page, whole_number
from api.operations.audit import AuditEntry
from storage import AuditFilter, Role

if TYPE_CHECKING:
    import falcon

    from api.console.site import Site

_ENTRIES = 50


class AuditPage(Page):
    """``/{org}/audit``."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """Show a page of changes before the entry ``before``, to an admin."""
        organization = self._site.access.member(req, org, Role.ADMIN).organization
        wanted = AuditFilter(organization=organization.slug)
        page = self._site.storage.audit.page(_ENTRIES, whole_number(req.get_param("before")), wanted)
        self._site.pages.show(
            req,
            resp,
            "organization/audit",
            organization=organization,
            entries=[AuditEntry.of(entry) for entry in page.rows],
            more=page.next_key,
        )
