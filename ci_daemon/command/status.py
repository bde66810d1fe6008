"""`ci-daemon status`: the service's status on one screen."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from datetime import UTC, datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click
from rich.text import Text

from actors.eviction import Forest
from actors.vms.sandbox.userns import NoSubIds
from ci_daemon.command.instants import on_the_wire
from ci_daemon.command.session import Session, pass_session
from ci_daemon.command.style import Command
from ci_daemon.command.texts import watch_option
from ci_daemon.lock import served_by
from ci_daemon.overview import waiting, work
from ci_daemon.providers import open_images
from ci_daemon.terminal.cells import on_one_line
from ci_daemon.terminal.spans import ago, span
from ci_daemon.terminal.tables import pairs, print_picture
from storage import LeaseState, SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import Any

    from rich.console import RenderableType

    from ci_daemon.config import Config
    from ci_daemon.lock import ServingProcess
    from storage import JobFault, Storage

__all__ = ["status"]

_GIB = 2**30
_FAULTS = 5
_PATIENCE = 2.0
_STOPPED = 3
_LONGEST_HEALTH = 100
_HEALTHS = {"ok", "draining"}
_TOO_LITTLE = ": too little for jobs to start (pool.low_disk_gb)"
_DRAINED = "; the owner has drained this host: `ci-daemon resume` has jobs start again"


@click.command(cls=Command, reads=True)
@watch_option
@pass_session
def status(session: Session, *, watch: bool) -> int:
    """Show whether the service runs, its builds and VMs, its disk space, and its last errors.

    Exit code 0: it runs and answers; 3: it does not, as with `systemctl status`. With --watch it is 0.
    """
    config, starting = session.config(), session.starting
    with session.records() as storage:

        def look() -> dict[str, Any]:
            return _document(session, storage, config, served_by(session.state_dir))

        def draw(document: dict[str, Any]) -> RenderableType:
            style = "green" if document["answers"] and not document["draining"] else "bold red"
            return pairs(
                (name, Text(text, style if name == "service" else "")) for name, text in _lines(document, starting)
            )

        if watch:
            session.watch(look, draw)
            return 0
        document = look()
    if session.json:
        session.answer(document, "")
    else:
        print_picture(draw(document))
    return 0 if document["answers"] else _STOPPED


def _document(session: Session, storage: Storage, config: Config, server: ServingProcess | None) -> dict[str, Any]:
    drained = storage.switches.drained_since()
    free = shutil.disk_usage(session.state_dir).free
    said = _answer(server)
    cents, overdrawn = storage.ledger.totals()
    leases = Counter(storage.leases.counts())
    next_up = waiting(storage, config.pool, SystemClock(), 1, served=server is not None)
    oldest = storage.queue.oldest()
    return {
        "state_dir": str(session.state_dir),
        "pid": server.pid if server else None,
        "url": server.url if server else None,
        "release": _release(server),
        "up_seconds": int(time.time() - server.since) if server and server.since else None,
        "watchdog_seconds": server.watchdog if server else None,
        "answers": said is not None,
        "draining": said == "draining",
        "drained_since": drained and on_the_wire(drained),
        "builds": {state.value: count for state, count in storage.builds.unfinished_counts().items()},
        "queued_jobs": storage.queue.length(),
        "oldest_queued_at": oldest and on_the_wire(oldest),
        "next_job": next_up[0].build if next_up else None,
        "next_job_reason": next_up[0].reason if next_up else None,
        "leases": {state.value: count for state, count in leases.items()},
        "vms": dict(Counter([each.state for each in work(storage)] + [LeaseState.WARM] * leases[LeaseState.WARM])),
        "max_vms": config.pool.host().vms,
        "disk_low": free < config.pool.low_disk_gb * _GIB,
        "disk_free_bytes": free,
        "disk": {**_kept(storage), "images": _image_bytes(session.state_dir, config)},
        "errors": [_fault(each) for each in storage.faults.latest(_FAULTS)],
        "forced": [{**_fault(each), "by": each.forced_by} for each in storage.faults.forced(_FAULTS)],
        "balances_cents": cents,
        "overdrawn_organizations": overdrawn,
    }


def _kept(storage: Storage) -> dict[str, int]:
    """Return the sizes of the service's data in bytes; ``disks`` are those of jobs, including cached ones."""
    snapshots = storage.snapshots.all()
    forest = Forest(snapshots)
    return {
        "database": storage.database_bytes(),
        "logs": storage.log_retention.bytes(),
        "artifacts": storage.artifact_retention.bytes(),
        "disks": forest.bytes(each.name for each in snapshots),
        "cache": forest.bytes(each.snapshot for each in storage.cache.entries(None, None)),
    }


def _image_bytes(state_dir: Path, config: Config) -> int:
    """Return the size of all images; 0 for a user without sub-ids, who cannot have any."""
    try:
        return sum(image.size for image in open_images(state_dir, config).store.list())
    except NoSubIds:
        return 0


def _release(server: ServingProcess | None) -> str | None:
    """Return the release that serves, else the installed one."""
    if server is not None:
        return server.release
    from importlib.metadata import version  # noqa: PLC0415 - it takes a tenth of the command's time

    return version("ci-daemon")


def _answer(server: ServingProcess | None) -> str | None:
    """Return the service's health, "ok" or "draining"; None if it does not answer."""
    if server is None or server.url is None:
        return None
    address = urlsplit(server.url)
    kind = HTTPSConnection if address.scheme == "https" else HTTPConnection
    connection = kind(address.hostname or "", address.port, timeout=_PATIENCE)
    try:
        connection.request("GET", f"{address.path}/healthz")
        said = connection.getresponse().read(_LONGEST_HEALTH).decode(errors="replace")
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()
    return said if said in _HEALTHS else None


def _lines(told: Mapping[str, Any], starting: str) -> Iterator[tuple[str, str]]:
    yield "service", _service(told, starting)
    low = _TOO_LITTLE if told["disk_low"] else ""
    yield "state", f"{told['state_dir']}, {told['disk_free_bytes'] / _GIB:.1f} GiB free{low}"
    yield "builds", _counted(told["builds"]) or "none under way"
    yield "queue", _queue(told)
    yield "VMs", f"{_counted(told['vms']) or 'none'}; jobs may have {told['max_vms']}"
    yield "kept", ", ".join(f"{name} {_size(size)}" for name, size in told["disk"].items())
    overdrawn = told["overdrawn_organizations"]
    owing = f"; {overdrawn} organizations are below nothing" if overdrawn else ""
    yield "money", f"{told['balances_cents']} cents on all accounts{owing}"
    yield "errors", "the last by the fault of the service:" if told["errors"] else "none by the service's fault"
    yield from (("", _failed(each)) for each in told["errors"])
    if told["forced"]:
        yield "by hand", "the last that an operator ended (`ci-daemon audit`):"
        yield from (("", f"{_failed(each)} (by {each['by']})") for each in told["forced"])


def _failed(each: Mapping[str, Any]) -> str:
    reason = f"{each['error_code']}: {each['error_message']}"
    return f"{_ago(each['finished_at'])}: {each['build']} {each['step']}: {reason}"


def _service(told: Mapping[str, Any], starting: str) -> str:
    if told["pid"] is None:
        return f"does not run: start it with {starting}"
    up = "" if told["up_seconds"] is None else f" for {span(told['up_seconds'])}"
    health = "" if told["answers"] else ", but does not answer: `ci-daemon logs` may say why"
    watched = "" if told["watchdog_seconds"] is None else f", watched by systemd every {told['watchdog_seconds']:g} s"
    leaves = ", and is about to stop" if told["draining"] else ""
    return f"runs as process {told['pid']} on {told['url']}{up}, release {told['release']}{watched}{health}{leaves}"


def _queue(told: Mapping[str, Any]) -> str:
    drained = _DRAINED if told["drained_since"] else ""
    if not told["queued_jobs"]:
        return f"no jobs wait{drained}"
    since = f", the oldest queued {_ago(told['oldest_queued_at'])}" if told["oldest_queued_at"] else ""
    return f"{told['queued_jobs']} jobs wait{since}{drained or ': ' + told['next_job_reason']}"


def _fault(each: JobFault) -> dict[str, object]:
    return {
        "build": f"{each.organization}/{each.pipeline}/{each.number}",
        "step": on_one_line(each.step_key),
        "error_code": each.error_code,
        "error_message": on_one_line(each.error_message),
        "finished_at": on_the_wire(each.finished_at),
    }


def _ago(at: str) -> str:
    return ago(datetime.fromisoformat(at), datetime.now(UTC))


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in counts.items())


def _size(size: int) -> str:
    return f"{size / _GIB:.1f} GiB" if size >= _GIB else f"{size / 2**20:.1f} MiB"
