"""The audit of an organization (wire-decisions.md, "Who may do what")."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - the model of a record reads the annotations
from typing import Annotated, Self

import storage
from api.operations.operation import GET, Call, Span, operation, owners_operation
from api.operations.things import ORGANIZATION, ThisMembership
from storage import AuditFilter, Page, Role, immutable


@immutable
class AuditEntry:
    """A change; ``action`` is an operation of the API, or a command of the host's owner.

    ``origin`` is the address that the change came from; null for those of the host's owner.
    """

    uuid: str
    at: datetime
    actor: str
    action: str
    subject: str
    note: str
    origin: str | None

    @classmethod
    def of(cls, entry: storage.AuditEntry) -> Self:
        """Return the record of a stored entry, without the terminal of the host's owner."""
        origin = entry.origin if "@" in entry.actor else None
        return cls(entry.uuid, entry.at, entry.actor, entry.action, entry.subject, entry.note, origin)


@operation("listAuditEntries", GET, f"{ORGANIZATION}/audit", "A page of changes.", role=Role.ADMIN)
def list_audit_entries(call: Call, membership: ThisMembership, span: Span) -> Page[AuditEntry]:
    """List who changed what in the organization, newest first; needs the role admin."""
    wanted = AuditFilter(organization=membership.organization.slug)
    page = call.storage.audit.page(span.limit, span.after, wanted)
    return Page(tuple(map(AuditEntry.of, page.rows)), page.next_key)


@immutable
class ChangesAfter:
    """The body of `list_changes_after`: at most ``limit`` wanted entries past the key ``after``."""

    after: int
    limit: int
    wanted: AuditFilter


@owners_operation("listChanges", GET, "/audit")
def list_changes(call: Call, body: AuditFilter, span: Span) -> Page[storage.AuditEntry]:
    """List the wanted changes, newest first."""
    return call.storage.audit.page(span.limit, span.after, body)


@owners_operation("listChangesAfter", GET, "/audit/after")
def list_changes_after(
    call: Call, body: ChangesAfter
) -> Annotated[list[storage.AuditEntry], "The wanted changes, oldest first."]:
    """List wanted changes past one of them, oldest first."""
    return call.storage.audit.following(body.after, body.limit, body.wanted)


@owners_operation("getLastChange", GET, "/audit/last")
def get_last_change(call: Call) -> int:
    """Return the key of the newest change; 0 if there is none."""
    return call.storage.audit.last_id()
