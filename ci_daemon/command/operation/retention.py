"""`ci-daemon retention`: delete logs, artifacts, sources and audit entries by age and size."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from api.operations import retention as operations
from ci_daemon.command.support.command_classes import Group
from ci_daemon.command.support.session import Session, pass_session
from ci_daemon.terminal import counted
from storage import document_of, step_text

if TYPE_CHECKING:
    from actors.cleanup import ExpiredTotal

_MB = 10**6


@click.group(cls=Group)
def retention() -> None:
    """Retention of the logs, artifacts and sources of finished builds, and of the audit."""


@retention.command()
@click.option("--dry-run", is_flag=True, help="Print what would be removed, and remove nothing.")
@pass_session
def run(session: Session, *, dry_run: bool) -> None:
    """Remove files and entries of the audit that are older than the section [retention] allows.

    Files are logs, artifacts and sources. Those over its budgets are removed too.

    The service does this every hour. It may run at the same time.
    """
    with session.owners_door() as door:
        expired = door.perform(operations.preview_retention if dry_run else operations.run_retention, {})
    verb = "would remove" if dry_run else "removed"
    kinds = (
        *(_total_text(what, total) for what, total in expired.files.items()),
        f"{counted(expired.audit, 'entry', 'entries')} of the audit",
    )
    text = f"{verb} {', '.join(kinds[:-1])} and {kinds[-1]}"
    files = {what: asdict(total) for what, total in expired.files.items()}
    session.answer({"dry_run": dry_run, **files, "audit": expired.audit}, text)


@retention.command()
@pass_session
def confirm(session: Session) -> None:
    """Let retention go on after the host's clock moved much further than the service was away.

    Until then nothing is removed by age or size, because a wrong clock would make everything look old. `status` and
    `doctor` say so. Check `date` first, and `ci-daemon retention run --dry-run` for what would be removed.
    """
    with session.owners_door() as door:
        confirmed = door.perform(operations.confirm_clock, {})
    by = confirmed.set_by_seconds
    session.answer(document_of(confirmed), "retention goes on" if by is None else f"{step_text(by)}: retention goes on")


def _total_text(what: str, total: ExpiredTotal) -> str:
    return f"the {what} of {counted(total.builds, 'build')} ({total.bytes / _MB:.1f} MB)"
