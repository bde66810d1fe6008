"""`ci-daemon status`: how the service is."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING

import click

from ci_daemon.command.instants import on_the_wire
from ci_daemon.command.session import Session, pass_session
from ci_daemon.command.style import Command
from ci_daemon.lock import served_by

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["status"]

_GIB = 2**30
_TOO_LITTLE = ": too little for jobs to start (pool.low_disk_gb)"
_DRAINED = ", and the owner has drained this host: `ci-daemon resume` has jobs start again"


@click.command(cls=Command, short_help="Say whether the service runs and what it has to do.")
@pass_session
def status(session: Session) -> None:
    """Say whether the service runs, which builds are under way, and what VMs there are."""
    with session.storage() as storage:
        builds = Counter(build.state.value for build in storage.builds.unfinished())
        leases = {state.value: count for state, count in storage.leases.counts().items()}
        queued, drained = storage.queue.length(), storage.switches.drained_since()
    server = served_by(session.state_dir)
    free = shutil.disk_usage(session.state_dir).free
    low = session.config().pool.low_disk_gb * _GIB
    runs = (
        f"runs as process {server.pid} on {server.url}" if server else "does not run: start it with `ci-daemon serve`"
    )
    session.answer(
        {
            "state_dir": str(session.state_dir),
            "pid": server.pid if server else None,
            "url": server.url if server else None,
            "builds": dict(builds),
            "leases": leases,
            "queued_jobs": queued,
            "drained_since": drained and on_the_wire(drained),
            "disk_low": free < low,
            "disk_free_bytes": free,
        },
        f"service  {runs}\n"
        f"state    {session.state_dir}, {free / _GIB:.1f} GiB free{_TOO_LITTLE if free < low else ''}\n"
        f"builds   {_counted(builds) or 'none under way'}\n"
        f"queue    {queued or 'no'} jobs wait{_DRAINED if drained else ''}\n"
        f"VMs      {_counted(leases) or 'none'}",
    )


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in counts.items())
