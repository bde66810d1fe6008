"""The terminals that people have opened on forks of the disks of jobs (engine.md, "Kept disks")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage.database.statements import Columns, Query, Write, insert_into, slot
from storage.models.leases import HoldRow, LeaseRow, TerminalRow
from storage.records.leases import ForkTerminal

if TYPE_CHECKING:
    import peewee

    from storage.database.connection import Database

_TERMINAL = Columns.of(
    ForkTerminal,
    TerminalRow,
    uuid=LeaseRow.uuid,
    lease_id=HoldRow.lease,
    organization_id=HoldRow.organization,
    job_id=HoldRow.job,
    started_at=HoldRow.started_at,
    until=HoldRow.until,
    finished_at=HoldRow.finished_at,
    opened_by=HoldRow.opened_by,
)


class Terminals:
    """The terminals by the holds of their VMs. Safe in any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database

        unfinished = HoldRow.finished_at.is_null()
        self._open = Query(database, lambda: _rows().where(unfinished).order_by(HoldRow.id), _TERMINAL)
        self._of_vm = Query(database, lambda: _rows().where(LeaseRow.uuid == slot("uuid")), _TERMINAL)
        self._insert = Write(database, lambda: insert_into(TerminalRow, "why_ended"))
        self._note = Write(
            database,
            lambda: TerminalRow.update({TerminalRow.why_ended: slot("why")}).where(
                TerminalRow.hold == slot("hold_id"), TerminalRow.why_ended.is_null()
            ),
        )

    def add(self, hold_id: int, user_id: int, token_id: int, *, before: bool) -> None:
        """Note whose terminal a held VM has, and by which token it was opened, in the caller's transaction."""
        self._insert.run(hold_id=hold_id, user_id=user_id, token_id=token_id, before=before)

    def open(self) -> list[ForkTerminal]:
        """Return the terminals whose VMs are held, oldest first."""
        return self._open.all()

    def by_uuid(self, uuid: str) -> ForkTerminal | None:
        """Return a terminal by the UUID of its VM's lease, whether it is open or has ended."""
        return self._of_vm.one(uuid=uuid)

    def note_end(self, hold_id: int, why: str) -> None:
        """Note why a terminal ends, unless that is known."""
        with self._database.write():
            self._note.run(hold_id=hold_id, why=why)


def _rows() -> peewee.ModelSelect[TerminalRow]:
    return TerminalRow.select(*_TERMINAL.selected).join(HoldRow).join(LeaseRow)
