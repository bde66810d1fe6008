"""`ci-daemon status`: the service's status on one screen."""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from actors.cleanup import kept_bytes
from actors.scheduling import jobs_in_line
from actors.vms import host
from ci_daemon import overview
from ci_daemon.command.support.command_classes import Command
from ci_daemon.command.support.exit_codes import ExitCode
from ci_daemon.command.support.options import watch_option
from ci_daemon.command.support.session import Session, pass_session
from ci_daemon.host.lock import served_by
from ci_daemon.host.place import StateCopied, is_copy
from ci_daemon.providers import open_images, pool_capacity
from ci_daemon.terminal import counted
from ci_daemon.terminal.text import printable, relative_time, size_text
from storage import CONFIRM, LeaseState, SystemClock, duration, step_text, timestamp

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from rich.table import Table

    from ci_daemon.config import Config
    from ci_daemon.host.lock import ServingProcess
    from storage import FailingNotification, ServiceFailure, Storage

    Pair = tuple[str, str, str]
    """A name, its text, and the style of the text on a terminal."""

_GIB = 2**30
_MAX_ERRORS = 5
_TIMEOUT = 2.0
_MAX_HEALTH_BYTES = 100
_HEALTH_VALUES = {"ok", "draining"}
_DISK_LOW = ": too little for jobs to start (pool.low_disk_gb)"
_DRAINED = "; the owner has drained this host: `ci-daemon resume` has jobs start again"


@click.command(cls=Command, reads=True)
@watch_option
@pass_session
def status(session: Session, *, watch: bool) -> ExitCode:
    """Show whether the service runs, its builds and VMs, its disk space, and its last errors.

    Exit code 0: it runs and answers; 3: it does not, as with `systemctl status`. With --watch it is 0.
    """
    config, start_command = session.config(), session.start_command
    with session.storage_without_billing() as storage:

        def read() -> dict[str, Any]:
            return _document(session, storage, config, served_by(session.state_dir))

        def lines(document: dict[str, Any]) -> list[tuple[str, str, str]]:
            style = "green" if document["answers"] and not document["draining"] else "bold red"
            styles = {"service": style, "database": "bold red"}
            return [(name, text, styles.get(name, "")) for name, text in _lines(document, start_command)]

        if watch:
            session.watch(read, lambda document: pair_table(lines(document)))
            return ExitCode.SUCCESS
        document = read()
    if session.json:
        session.answer(document, "")
    else:
        print_pairs(lines(document))
    return ExitCode.SUCCESS if document["answers"] else ExitCode.UNFINISHED


def print_pairs(pairs: Sequence[Pair]) -> None:
    """Print to stdout: on a terminal in colours and by the pager, elsewhere a line each."""
    if sys.stdout.isatty():
        from ci_daemon.terminal.tables import print_renderable  # noqa: PLC0415 - a pipe needs none of it

        print_renderable(pair_table(pairs))
        return
    width = max((len(name) for name, _, _ in pairs), default=0)
    sys.stdout.writelines(f"{f'{name:{width}}  {text}'.rstrip()}\n" for name, text, _ in pairs)


def pair_table(pairs: Sequence[Pair]) -> Table:
    """Return a table for a terminal, in which the texts wrap."""
    from rich.text import Text  # noqa: PLC0415 - see above

    from ci_daemon.terminal.tables import two_column_table  # noqa: PLC0415 - see above

    return two_column_table((name, Text(text, style)) for name, text, style in pairs)


def _document(session: Session, storage: Storage, config: Config, server: ServingProcess | None) -> dict[str, Any]:
    drained = storage.switches.drained_since()
    storage.clock_steps.read()
    jump = storage.clock_steps.jump
    free = shutil.disk_usage(session.state_dir).free
    health = _health(server)
    cents, overdrawn = storage.ledger.totals()
    leases = Counter(storage.leases.counts())
    host = pool_capacity(session.state_dir, config)
    queued = storage.queue.length()
    next_up = jobs_in_line(storage, config.pool, host, SystemClock(), 1, running=server is not None) if queued else []
    oldest = storage.queue.oldest()
    return {
        "state_dir": str(session.state_dir),
        "copied": is_copy(session.state_dir),
        "pid": server.pid if server else None,
        "url": server.url if server else None,
        "release": server.release if server is not None else _installed() if session.json else None,
        "up_seconds": int(time.time() - server.since) if server and server.since else None,
        "watchdog_seconds": server.watchdog if server else None,
        "answers": health is not None,
        "database_damage": storage.integrity.damage,
        "retention_waits": None if jump is None else round(jump.by.total_seconds()),
        "draining": health == "draining",
        "drained_since": drained and timestamp(drained),
        "builds": {state.value: count for state, count in storage.builds.unfinished_counts().items()},
        "queued_jobs": queued,
        "oldest_queued_at": oldest and timestamp(oldest),
        "next_job": next_up[0].build if next_up else None,
        "next_job_reason": next_up[0].reason if next_up else None,
        "leases": {state.value: count for state, count in leases.items()},
        "vms": dict(
            Counter(
                [each.state for each in overview.vms_in_use(storage)] + [LeaseState.PARKED] * leases[LeaseState.PARKED]
            )
        ),
        "max_vms": host.vms,
        "disk_low": free < config.pool.low_disk_gb * _GIB,
        "disk_free_bytes": free,
        "disk": {**asdict(kept_bytes(storage)), "images": _image_bytes(session.state_dir, config)},
        "mail": {"configured": bool(config.mail.host), **asdict(storage.mail.totals())},
        "repositories": _failing_repositories(storage),
        "notifications": [_failing_document(each) for each in storage.notifications.failing(_MAX_ERRORS)],
        "errors": [_error_document(each) for each in storage.service_failures.latest(_MAX_ERRORS)],
        "forced": [
            {**_error_document(each), "by": each.forced_by} for each in storage.service_failures.forced(_MAX_ERRORS)
        ],
        "balances_cents": cents,
        "overdrawn_organizations": overdrawn,
    }


def _image_bytes(state_dir: Path, config: Config) -> int:
    """Return the size of all images; 0 for a user without sub-ids, who cannot have any."""
    try:
        return sum(image.size for image in open_images(state_dir, config).store.list())
    except host.NoSubIds:
        return 0


def _installed() -> str:
    """Return the installed release, which the screen does not show."""
    from importlib.metadata import version  # noqa: PLC0415 - it takes a tenth of the command's time

    return version("ci-daemon")


def _health(server: ServingProcess | None) -> str | None:
    """Return the service's health, "ok" or "draining"; None if it does not answer."""
    if server is None or server.url is None:
        return None
    from http import client  # noqa: PLC0415 - it takes a tenth of the command's time

    address = urlsplit(server.url)
    kind = client.HTTPSConnection if address.scheme == "https" else client.HTTPConnection
    connection = kind(address.hostname or "", address.port, timeout=_TIMEOUT)
    try:
        connection.request("GET", f"{address.path}/healthz")
        health = connection.getresponse().read(_MAX_HEALTH_BYTES).decode(errors="replace")
    except (OSError, client.HTTPException):
        return None
    finally:
        connection.close()
    return health if health in _HEALTH_VALUES else None


def _lines(document: Mapping[str, Any], start_command: str) -> Iterator[tuple[str, str]]:
    yield "service", _service(document, start_command)
    low = _DISK_LOW if document["disk_low"] else ""
    yield "state", f"{document['state_dir']}, {document['disk_free_bytes'] / _GIB:.1f} GiB free{low}"
    if document["database_damage"] is not None:
        yield "database", document["database_damage"]
    yield "builds", _format_counts(document["builds"]) or "none under way"
    yield "queue", _queue(document)
    yield "VMs", f"{_format_counts(document['vms']) or 'none'}; jobs may have {document['max_vms']}"
    yield "kept", ", ".join(f"{name} {size_text(size)}" for name, size in document["disk"].items())
    overdrawn = document["overdrawn_organizations"]
    owing = f"; {counted(overdrawn, 'organization has', 'organizations have')} a negative balance" if overdrawn else ""
    yield "money", f"{counted(document['balances_cents'], 'cent')} on all accounts{owing}"
    yield "mail", _mail(document["mail"])
    if document["retention_waits"] is not None:
        yield "retention", f"removes nothing: {step_text(document['retention_waits'])}; {CONFIRM}"
    if document["repositories"]:
        yield "repos", "repositories with errors (`ci-daemon repo list`):"
        yield from (("", f"{each['url']}: {each['last_error']}") for each in document["repositories"])
    if document["notifications"]:
        yield "notify", "notifications whose deliveries fail (`ci-daemon notify deliveries ID`):"
        yield from (("", _failing_line(each)) for each in document["notifications"])
    yield (
        "errors",
        "the latest failures that the service caused:" if document["errors"] else "no failures that the service caused",
    )
    yield from (("", _error_line(each)) for each in document["errors"])
    if document["forced"]:
        yield "by hand", "the latest builds that an operator ended (`ci-daemon audit`):"
        yield from (("", f"{_error_line(each)} (by {each['by']})") for each in document["forced"])


def _error_line(each: Mapping[str, Any]) -> str:
    reason = f"{each['error_code']}: {each['error_message']}"
    return f"{_relative_time(each['finished_at'])}: {each['build']} {each['step']}: {reason}"


def _service(document: Mapping[str, Any], start_command: str) -> str:
    if document["copied"]:
        return f"does not run: {StateCopied(Path(document['state_dir']))}"
    if document["pid"] is None:
        return f"does not run: start it with {start_command}"
    uptime = "" if document["up_seconds"] is None else f" for {duration(document['up_seconds'])}"
    problem = "" if document["answers"] else ", but does not answer: see `ci-daemon logs`"
    watched = (
        "" if document["watchdog_seconds"] is None else f", watched by systemd every {document['watchdog_seconds']:g} s"
    )
    stopping = ", and is stopping" if document["draining"] else ""
    process = f"runs as process {document['pid']} on {document['url']}{uptime}, release {document['release']}"
    return f"{process}{watched}{problem}{stopping}"


def _queue(document: Mapping[str, Any]) -> str:
    drained = _DRAINED if document["drained_since"] else ""
    if not document["queued_jobs"]:
        return f"no jobs wait{drained}"
    since = (
        f", the oldest queued {_relative_time(document['oldest_queued_at'])}" if document["oldest_queued_at"] else ""
    )
    return f"{document['queued_jobs']} waiting{since}{drained or ': ' + document['next_job_reason']}"


def _mail(mail: Mapping[str, Any]) -> str:
    waiting = counted(mail["waiting"], "mail waits", "mails wait") if mail["waiting"] else "no mail waits"
    if not mail["configured"]:
        return f"{waiting}; no mail server is configured ([mail]): `ci-daemon user link EMAIL` prints a link to sign in"
    failed = f", {mail['deferred']} of them after a failed attempt" if mail["deferred"] else ""
    lost = f"; {counted(mail['given_up'], 'was', 'were')} given up in the last 24 hours" if mail["given_up"] else ""
    return f"{waiting}{failed}{lost}" + (": see `ci-daemon mail queue`" if failed or lost else "")


def _failing_repositories(storage: Storage) -> list[dict[str, object]]:
    repositories = storage.repositories.all()
    errors = storage.build_origins.errors_of(repositories)
    failing = [each for each in repositories if each.id in errors][:_MAX_ERRORS]
    return [{"url": each.url, "last_error": printable(errors[each.id])} for each in failing]


def _failing_document(each: FailingNotification) -> dict[str, object]:
    return {
        "id": each.uuid,
        "pipeline": f"{each.organization_slug}/{each.pipeline_slug}",
        "failing_since": timestamp(each.failing_since),
        "last_error": printable(each.last_error),
        "disabled": each.disabled_at is not None,
    }


def _failing_line(each: Mapping[str, Any]) -> str:
    state = "disabled, failing since" if each["disabled"] else "failing since"
    return f"{each['pipeline']} {each['id']}: {state} {_relative_time(each['failing_since'])}: {each['last_error']}"


def _error_document(each: ServiceFailure) -> dict[str, object]:
    return {
        "build": f"{each.organization}/{each.pipeline}/{each.number}",
        "step": printable(each.step_key),
        "error_code": each.error_code,
        "error_message": printable(each.error_message),
        "finished_at": timestamp(each.finished_at),
    }


def _relative_time(at: str) -> str:
    return relative_time(datetime.fromisoformat(at), datetime.now(UTC))


def _format_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in counts.items())
