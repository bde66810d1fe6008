"""The running service: opens its parts in order, runs until a signal, and closes them in reverse."""

from __future__ import annotations

import logging
import signal
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pykka

from actors import Engine, Settings
from actors.vms.sandbox.limits import Limits
from api import Server, create_app
from ci_daemon.dump import dump
from ci_daemon.lock import serving
from ci_daemon.mail.smtp import SmtpMailer
from ci_daemon.open_files import allow_open_files
from ci_daemon.providers import open_images, open_provider
from ci_daemon.reload import Reloader
from ci_daemon.tracing import Tracer, open_collector
from storage import LeaseState, LogLimit, Storage, SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ci_daemon.config import Config
    from ci_daemon.notify import Notifier

__all__ = ["serve"]

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0


def serve(directory: Path, load: Callable[[], Config], notifier: Notifier, *, wait: bool) -> int:
    """Run the service until SIGTERM or SIGINT; return the process's exit code. Runs in the main thread.

    VMs and the jobs in them outlive the service unless it waits for them (engine.md, "Drain"). SIGHUP reloads the
    configuration, SIGUSR1 dumps threads and actors to the log.

    Args:
        directory: the state directory.
        load: reads the configuration. Raises ConfigError, which leaves this function only at the start.
        notifier: reports the service's state to systemd.
        wait: let running jobs end first; a second signal ends the wait.
    """
    stop, hangup = _signals()
    config = load()
    allow_open_files()
    clock = SystemClock()
    with ExitStack() as opened:
        lock = opened.enter_context(serving(directory))
        limit = LogLimit(config.jobs.log_limit_bytes)
        storage = Storage.open(directory, clock, billing=config.billing, log_limit=limit)
        opened.callback(storage.close)
        if config.tracing.endpoint:
            opened.callback(Tracer(storage, open_collector(config.tracing), clock).close)
        images = open_images(directory, config)
        provider = open_provider(directory, config, images, clock)
        _say_what_is_not_enforced(config)
        server = Server(config.http)
        settings = server.settings
        engine = Engine(
            storage,
            provider,
            images,
            clock,
            Settings(
                pool=config.pool,
                jobs=config.jobs,
                retention=config.retention,
                cache=config.cache,
                artifacts=config.artifacts,
                render=config.render,
                limits=config.ir,
                base_url=settings.url,
                api_address=server.local_address,
            ),
        )
        opened.callback(_no_actor_remains)
        engine.start()
        opened.callback(engine.stop)
        app = create_app(
            storage,
            engine,
            settings,
            limits=config.ir,
            rate_limits=config.rate_limits,
            mailer=_mailer(config, opened),
            streams=server.streams,
            clock=clock,
        )
        server.start(app)
        opened.callback(server.close)
        _log.info("serving %s on %s", directory, settings.url)
        lock.note(settings.url, notifier.watchdog_seconds)
        status = f"serving on {settings.url}"
        notifier.ready(status)

        _run(stop, hangup, Reloader(config, load, engine, notifier, status))
        _log.info("stopping")
        notifier.stopping("draining")
        engine.drain()
        if wait:
            stop.clear()
            _drain(stop, engine, storage, notifier)
        return 1 if engine.broken.is_set() else 0


def _mailer(config: Config, opened: ExitStack) -> SmtpMailer | None:
    if not config.mail.host:
        return None
    mailer = SmtpMailer(config.mail)
    opened.callback(mailer.close)
    return mailer


def _say_what_is_not_enforced(config: Config) -> None:
    for part in Limits.of_host(config.sandbox.processes).describe():
        if not part.enforced:
            _log.warning("VMs are not held to their %s: %s; see `ci-daemon doctor`", part.resource, part.how)


def _signals() -> tuple[threading.Event, threading.Event]:
    """Install the signal handlers: return the events that SIGTERM and SIGINT, and SIGHUP, set."""
    stop, hangup = threading.Event(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    signal.signal(signal.SIGHUP, lambda _number, _frame: hangup.set())
    signal.signal(signal.SIGUSR1, lambda _number, _frame: dump())
    return stop, hangup


def _run(stop: threading.Event, hangup: threading.Event, reloader: Reloader) -> None:
    """Reload and feed the watchdog until a stop signal, or until restarts no longer keep the actors alive."""
    while not stop.wait(_tick(reloader.notifier)):
        if reloader.engine.broken.is_set():
            _log.error("the actors die faster than restarting them helps: the process ends, to be started again")
            return
        if hangup.is_set():
            hangup.clear()
            reloader.reload()
        reloader.notifier.alive()


def _drain(stop: threading.Event, engine: Engine, storage: Storage, notifier: Notifier) -> None:
    """Wait until no VM is at work, a second signal comes, or the engine breaks."""
    while (left := _leased(storage)) and not engine.broken.is_set():
        notifier.status(f"draining: {left} VMs at work")
        if stop.wait(_tick(notifier)):
            return
        notifier.alive()


def _leased(storage: Storage) -> int:
    """Return the number of VMs at work; VMs on hold outlive the service and do not count."""
    counts = storage.leases.counts()
    return counts.get(LeaseState.ACTIVE, 0) + counts.get(LeaseState.CREATING, 0) - len(storage.holds.open())


def _tick(notifier: Notifier) -> float:
    return min(_LOOK_SECONDS, notifier.heartbeat_seconds or _LOOK_SECONDS)


def _no_actor_remains() -> None:
    """Log actors that are still running as errors, and stop them."""
    remaining = pykka.ActorRegistry.get_all()
    for actor in remaining:
        _log.error("the actor %s was left running", actor)
    if remaining:
        pykka.ActorRegistry.stop_all(timeout=_LOOK_SECONDS)
