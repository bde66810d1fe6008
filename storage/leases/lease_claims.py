"""Claims to VMs: what a lease is for, a job or a render, and the VM that it needs."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from storage.data_classes import immutable
from storage.database.statements import Slots, Write, insert_into, slot
from storage.models import LeaseRow
from storage.records import LeaseState, Shape

if TYPE_CHECKING:
    from storage.database.connection import Database


@immutable
class Claim:
    """A job's attempt or a build's render, with the VM that it needs; a parked VM is for neither."""

    image: str | None = None
    shape: Shape = field(default_factory=Shape)
    network: bool = True
    organization_id: int | None = None
    job_id: int | None = None
    attempt: int = 0
    build_id: int | None = None


_CLAIM: Slots[Claim] = Slots(Claim, LeaseRow, shape=Slots(Shape, LeaseRow))


class LeaseClaims:
    """Writes claims into new and free leases, which then are ``creating``, in the caller's transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._insert = Write(
            database,
            insert_into(
                LeaseRow, "started_at", "finished_at", "boot", "started_uptime", "killed_by", "seen_at", "member"
            ),
        )
        self._adopt = Write(
            database,
            LeaseRow.update(
                {LeaseRow.state: LeaseState.CREATING}
                | {column: slot(column.column_name) for column in _CLAIM.columns.values()}
            ).where(LeaseRow.id == slot("id")),
        )

    def add(self, uuid: str, provider: str, claim: Claim) -> int:
        """Add the lease of a VM that is to be made; return its row id."""
        return self._insert.insert(
            uuid=uuid,
            provider=provider,
            state=LeaseState.CREATING,
            created_at=self._database.now(),
            amount_cents=0,
            **_CLAIM(claim),
        )

    def give(self, lease_id: int, claim: Claim) -> None:
        """Give the lease of a VM without a job to what claims it."""
        self._adopt.run(id=lease_id, **_CLAIM(claim))
