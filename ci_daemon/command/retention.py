"""`ci-daemon retention`: delete logs and artifacts by age and size."""

from __future__ import annotations

from dataclasses import asdict

import click

from actors.retention import Share, expire, preview
from ci_daemon.command.session import Session, pass_session
from ci_daemon.command.style import Group
from storage import SystemClock

__all__ = ["retention"]

_MB = 10**6


@click.group(cls=Group)
def retention() -> None:
    """Retention of the logs and artifacts of finished builds."""


@retention.command()
@click.option("--dry-run", is_flag=True, help="Say what would go, and remove nothing.")
@pass_session
def run(session: Session, *, dry_run: bool) -> None:
    """Remove logs and artifacts that are older than the section [retention] allows, or over its budgets.

    The service does this every hour. It may run meanwhile.
    """
    session.audited = dry_run
    settings, now = session.config().retention, SystemClock().now()
    with session.storage() as storage:
        gone = (preview if dry_run else expire)(storage, settings, now)
    verb = "would remove" if dry_run else "removed"
    kinds = _said("logs", gone.logs), _said("artifacts", gone.artifacts), f"{gone.audit} entries of the audit"
    said = f"{verb} {kinds[0]}, {kinds[1]} and {kinds[2]}"
    session.answer({"dry_run": dry_run, **asdict(gone)}, said)


def _said(what: str, share: Share) -> str:
    return f"the {what} of {share.builds} builds ({share.bytes / _MB:.1f} MB)"
