"""The audit of an organization (wire-decisions.md, "Who may do what")."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from api.fields import StoredRecord, Timestamp, Uuid
from api.openapi.operations import Answer, operation
from api.paging import PAGE_ERRORS, PAGE_PARAMETERS, PageRecord
from storage import AuditFilter, Role

if TYPE_CHECKING:
    import falcon

    import storage
    from api.middleware.authentication import Access
    from api.paging import Pager
    from storage import Storage

__all__ = ["AuditEntryRecord", "AuditResource", "origin_of"]


class AuditEntryRecord(StoredRecord):
    """A change; ``action`` is an operation of the API, or a command of the host's owner.

    ``origin`` is the address that the change came from; null for those of the host's owner.
    """

    id: Uuid
    at: Timestamp
    actor: str
    action: str
    subject: str
    note: str
    origin: str | None

    @classmethod
    def of(cls, entry: storage.AuditEntry) -> AuditEntryRecord:
        """Return the record of an entry."""
        return cls.showing(entry, id=entry.uuid, origin=origin_of(entry))


class AuditResource:
    """``/api/v0/organizations/{org}/audit``."""

    def __init__(self, storage: Storage, access: Access, pager: Pager) -> None:
        self._audit = storage.audit
        self._access = access
        self._pager = pager

    @operation(
        "listAuditEntries",
        Answer(200, "A page of changes.", PageRecord[AuditEntryRecord]),
        errors=("organization_not_found", "insufficient_org_role", *PAGE_ERRORS),
        parameters=PAGE_PARAMETERS,
    )
    def on_get_list(self, req: falcon.Request, resp: falcon.Response, org: str) -> None:
        """List who changed what in the organization, newest first; needs the role admin."""
        organization = self._access.member(req, org, Role.ADMIN).organization
        page = partial(self._audit.page, wanted=AuditFilter(organization=organization.slug))
        self._pager.answer(req, resp, f"audit/{organization.id}", page, AuditEntryRecord.of)


def origin_of(entry: storage.AuditEntry) -> str | None:
    """Return the address of a person of the service; None for the terminal of the host's owner."""
    return entry.origin if "@" in entry.actor else None
