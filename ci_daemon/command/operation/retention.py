"""`ci-daemon retention`: delete logs, artifacts, sources and audit entries by age and size."""

from __future__ import annotations

from dataclasses import asdict

import click

from actors.cleanup import ExpiredTotal, expire, preview
from ci_daemon.command.support.command_classes import Group
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.terminal.counts import counted
from storage import CONFIRM, SystemClock, step_text

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
    session.audited = dry_run
    settings, now = session.config().retention, SystemClock().now()
    with session.storage() as storage:
        storage.clock_steps.read()
        if not dry_run and storage.clock_steps.jump is not None:
            raise Failure(f"nothing was removed: {CONFIRM}")
        expired = (preview if dry_run else expire)(storage, settings, now)
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
    with session.storage() as storage:
        storage.clock_steps.read()
        jump = storage.clock_steps.confirm()
    text = "retention goes on" if jump is None else f"{step_text(jump.by.total_seconds())}: retention goes on"
    session.answer({"set_by_seconds": None if jump is None else jump.by.total_seconds()}, text)


def _total_text(what: str, total: ExpiredTotal) -> str:
    return f"the {what} of {counted(total.builds, 'build')} ({total.bytes / _MB:.1f} MB)"
