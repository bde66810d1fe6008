"""Terminals on forks of the disks that jobs have left (engine.md, "Kept disks")."""

from __future__ import annotations

import base64
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

from api.errors.catalog import ApiError
from api.operations.operation import (
    DELETE,
    GET,
    POST,
    Call,
    Callers,
    Found,
    Membership,
    Whole,
    created,
    done,
    operation,
)
from api.operations.things import JOB, ORGANIZATION, ThisBuild, ThisCaller, ThisJob, ThisMembership
from storage import Build, ForkTerminal, Role, Scope, described, example, immutable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from api.fields import InputNumber, TerminalInput, TerminalSize
    from storage import Storage, Uuid

TERMINALS = f"{JOB}/terminals"
TERMINAL = f"{TERMINALS}/{{terminal}}"
OUTPUT = f"{TERMINAL}/output"

_USERS = Callers(scope=Scope.FORK)
_RETRY = {"Retry-After": "10"}
_COLUMNS, _ROWS = 80, 24
_ERRORS = ("insufficient_org_role", "terminal_ended", "busy")


@immutable
class OpenTerminalRequest:
    """The body of ``POST …/jobs/{job_id}/terminals``; the size is in characters."""

    before: bool | None = described("Start from the disk before the job's command.", default=None)
    columns: TerminalSize | None = described("Its width; 80 by default.", default=None)
    rows: TerminalSize | None = described("Its height; 24 by default.", default=None)


@immutable
class TypeRequest:
    """The body of ``POST …/terminals/{terminal}/input``.

    Input that was sent already is not typed again, so that a request whose answer was lost can be sent again.
    """

    at: InputNumber = described("The number of bytes of input before it, from 0.")
    data: TerminalInput = described("The input in Base64, 16 KiB at most.")


@immutable
class ResizeRequest:
    """The body of ``POST …/terminals/{terminal}/size``, in characters."""

    columns: TerminalSize
    rows: TerminalSize


@immutable
class TerminalRecord:
    """A terminal on a fork of a job's disk: ``before`` its command, or as it left it.

    It ends at ``until`` unless somebody types, and has ended with ``ended_at``; ``why_ended`` is a sentence.
    """

    uuid: Uuid
    before: bool = example(value=False)
    created_at: datetime
    until: datetime
    ended_at: datetime | None
    why_ended: str | None = example("it was closed")

    @classmethod
    def of(cls, terminal: ForkTerminal) -> TerminalRecord:
        """Return the record of a terminal."""
        return cls(
            terminal.uuid,
            terminal.before,
            terminal.started_at,
            terminal.until,
            terminal.finished_at,
            terminal.why_ended,
        )


@immutable
class OpenTerminal:
    """A terminal of the caller's that is open, with the job whose disk it is on."""

    uuid: Uuid
    pipeline: str = example("hello")
    build_number: int
    job_id: Uuid
    step_key: str = example("test")
    before: bool = example(value=False)
    created_at: datetime
    until: datetime


OpenTerminals = Annotated[list[OpenTerminal], Whole("The open terminals, oldest first.")]


@immutable
class TypedRecord:
    """The number of bytes of input that were taken in all; what is missing is to be sent again."""

    typed: int = example(42)


def _terminal(call: Call, job: ThisJob, caller: ThisCaller, terminal: str) -> ForkTerminal:
    found = call.storage.terminals.by_uuid(terminal)
    if found is None or found.job_id != job.id or found.user_id != caller.user.id:
        raise ApiError.not_found("terminal", terminal)
    return found


ThisTerminal = Annotated[ForkTerminal, Found(_terminal, ("terminal_not_found",))]
"""The terminal ``{terminal}`` of the job ``{job_id}``, which the caller has opened."""


@operation(
    "openTerminal",
    POST,
    TERMINALS,
    created("The terminal."),
    errors=(
        "insufficient_org_role",
        "billing_insufficient_balance",
        "budget_exhausted",
        "disk_not_kept",
        "too_many_terminals",
        "draining",
        "busy",
    ),
    callers=_USERS,
)
def open_terminal(
    call: Call, member: ThisMembership, build: ThisBuild, job: ThisJob, caller: ThisCaller, body: OpenTerminalRequest
) -> TerminalRecord:
    """Open a terminal on a fork of the disk that a job has left; any member can.

    Each has a VM and a fork of its own, as those of commands have, and is of the caller alone. It ends with its shell,
    when nobody types for a while, and when the caller's role or token ends.
    """
    from actors import forks, vms  # noqa: PLC0415 - what makes VMs, which few calls need
    from api.builds.creation import require_budget, require_credit  # noqa: PLC0415 - planning takes long to import
    from api.engine import refuse_while_draining  # noqa: PLC0415 - as above

    _require_role(call, member, build)
    refuse_while_draining(call.engine)
    require_budget(call.storage, call.budget_id)
    require_credit(call.storage, build.organization_id)
    call.client_gone()  # another thread serves meanwhile
    try:
        opened = call.engine.terminals.open(
            build,
            job,
            caller,
            before=bool(body.before),
            columns=body.columns or _COLUMNS,
            rows=body.rows or _ROWS,
            budget_id=call.budget_id,
        )
    except forks.DiskGone as error:
        raise ApiError("disk_not_kept", str(error)) from None
    except forks.TooManyTerminals as error:
        raise ApiError("too_many_terminals", str(error)) from None
    except (forks.ForkBusy, vms.VmError) as error:
        raise ApiError("busy", f"no VM can be made for the fork: {error}", headers=_RETRY) from None
    return TerminalRecord.of(opened)


@operation("listTerminals", GET, f"{ORGANIZATION}/terminals", "The terminals.")
def list_terminals(call: Call, member: ThisMembership, caller: ThisCaller) -> OpenTerminals:
    """List the terminals that the caller has open on the organization's disks."""
    return [
        each
        for terminal in call.storage.terminals.open()
        if terminal.user_id == caller.user.id and terminal.organization_id == member.organization.id
        if (each := _with_job(call.storage, terminal)) is not None
    ]


@operation(
    "getTerminal",
    GET,
    TERMINAL,
    "The terminal, also once it has ended.",
    errors=("insufficient_org_role",),
    callers=_USERS,
)
def get_terminal(call: Call, member: ThisMembership, build: ThisBuild, terminal: ThisTerminal) -> TerminalRecord:
    """Get a terminal that the caller has opened."""
    _require_role(call, member, build)
    return TerminalRecord.of(terminal)


@operation(
    "typeInTerminal",
    POST,
    f"{TERMINAL}/input",
    "The input that was taken.",
    errors=_ERRORS,
    callers=_USERS,
    changes=False,
)
def type_in_terminal(
    call: Call, member: ThisMembership, build: ThisBuild, terminal: ThisTerminal, body: TypeRequest
) -> TypedRecord:
    """Type into a terminal. The input goes on where it was taken so far, whatever is sent twice.

    Of input that the programs in it do not read, 64 KiB wait; more is not taken, so that less is counted than was sent.
    """
    _require_role(call, member, build)
    with _asking():
        return TypedRecord(call.engine.terminals.type_in(terminal, body.at, base64.b64decode(body.data)))


@operation(
    "resizeTerminal",
    POST,
    f"{TERMINAL}/size",
    done("Done."),
    errors=_ERRORS,
    callers=_USERS,
    changes=False,
)
def resize_terminal(
    call: Call, member: ThisMembership, build: ThisBuild, terminal: ThisTerminal, body: ResizeRequest
) -> None:
    """Set the size of a terminal."""
    _require_role(call, member, build)
    with _asking():
        call.engine.terminals.resize(terminal, body.columns, body.rows)


@operation("closeTerminal", DELETE, TERMINAL, done("It is closed, or was before."), callers=_USERS)
def close_terminal(call: Call, terminal: ThisTerminal) -> None:
    """End a terminal, and with it its VM."""
    call.engine.terminals.close(terminal)


def _with_job(storage: Storage, terminal: ForkTerminal) -> OpenTerminal | None:
    job = storage.jobs.get(terminal.job_id)
    build = None if job is None else storage.builds.get(job.build_id)
    if job is None or build is None:
        return None
    return OpenTerminal(
        terminal.uuid,
        build.pipeline_slug,
        build.number,
        job.uuid,
        job.step_key,
        terminal.before,
        terminal.started_at,
        terminal.until,
    )


def _require_role(call: Call, member: Membership, build: Build) -> None:
    """Raise ApiError ``insufficient_org_role`` if the disk may hold what is not for the caller."""
    from actors.forks import is_guarded  # noqa: PLC0415 - what makes VMs, which few calls need

    if not member.role.covers(Role.ADMIN) and is_guarded(call.storage, build):
        member.require(Role.ADMIN)


@contextmanager
def _asking() -> Iterator[None]:
    """Raise ApiError ``terminal_ended`` or ``busy`` for what the VM of a terminal does not answer."""
    from actors import forks, vms  # noqa: PLC0415 - what makes VMs, which few calls need

    try:
        yield
    except forks.TerminalGone as error:
        raise ApiError("terminal_ended", f"the terminal has ended: {error}") from None
    except vms.VmError as error:
        raise ApiError("busy", f"the terminal does not answer: {error}", headers=_RETRY) from None
