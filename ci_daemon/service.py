"""The running service: opens its parts in order, runs until a signal, and closes them in reverse."""

from __future__ import annotations

import logging
import signal
import threading
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pykka

from actors import Engine, PollerComposition, PrometheusMetrics
from api import Parts, RelyingParty, Server, build_document, create_app
from ci_daemon import tracing
from ci_daemon.host.lock import serving
from ci_daemon.host.place import check_place, claim_place
from ci_daemon.host.process import adapt_switch_interval, dump, raise_open_file_limit
from ci_daemon.providers import open_images, open_providers
from ci_daemon.reload import Reloader, engine_settings
from ci_daemon.source_hosts import SourceHosts
from ci_daemon.terminal import counted
from storage import LeaseState, Storage, SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from actors.vms import Provider
    from api.operations import Box
    from ci_daemon.config import Config
    from ci_daemon.host.notify import Notifier

_log = logging.getLogger(__name__)

_POLL_SECONDS = 1.0


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
    raise_open_file_limit()
    clock = SystemClock()
    with ExitStack() as stack:
        lock = stack.enter_context(serving(directory))
        check_place(directory)
        jobs = config.jobs
        storage = Storage.open(
            directory,
            clock,
            billing=config.billing,
            bounds=config.builds,
            log_limit=jobs.log_limit_bytes,
            strict_shell=jobs.strict_shell,
        )
        stack.callback(storage.close)
        storage.clock_steps.resume()
        if config.tracing.endpoint:
            stack.callback(tracing.Tracer(storage, tracing.open_exporter(config.tracing), clock).close)
        images = open_images(directory, config)
        providers = open_providers(directory, config, images, clock)
        stack.callback(providers.close)
        _warn_of_unenforced_limits(providers.named(config.pool.provider))
        _warn_of_unusable_passkeys(config)
        server = Server(config.http)
        settings = server.settings
        hosts = SourceHosts(storage, config, clock, settings.url)
        engine = Engine(
            storage,
            providers,
            images,
            clock,
            engine_settings(config, settings.url, server.local_address),
            lambda parts: PollerComposition(parts, hosts, partial(build_document, storage)).pollers,
            metrics=PrometheusMetrics(),
        )
        stack.callback(_stop_leaked_actors)
        status = f"serving on {settings.url}"
        reloader = Reloader(config, load, engine, notifier, status)

        def box() -> Box:
            from ci_daemon.box import ServingBox  # noqa: PLC0415 - for the pages of the owner alone

            return ServingBox(directory, storage, clock, lambda: reloader.config, images, providers)

        # Before the engine starts: its actors then keep the processor busy with connections to running VMs.
        app = create_app(
            storage,
            engine,
            settings,
            Parts(
                identity=config.identity,
                limits=config.ir,
                rate_limits=config.rate_limits,
                payments=config.payments,
                slots=server.slots,
                clock=clock,
                hosts=hosts,
                connector=hosts.connector,
                workspaces=hosts.workspaces,
                installations=hosts.installations if config.github.configured else None,
                box=box,
            ),
        )
        claim_place(directory, config.incus.prefix)
        engine.start()
        stack.callback(engine.stop)
        server.start(app)
        stack.callback(server.close)
        _log.info("serving %s on %s", directory, settings.url)
        lock.record_url(settings.url, notifier.watchdog_seconds)
        notifier.ready(status)

        _run(stop, hangup, reloader)
        _log.info("stopping")
        notifier.stopping("draining")
        engine.drain()
        if wait:
            stop.clear()
            _drain(stop, engine, storage, notifier)
        return 1 if engine.broken.is_set() else 0


def _warn_of_unenforced_limits(provider: Provider) -> None:
    for part in provider.description.limits:
        if not part.enforced:
            _log.warning("the limit of VMs on %s is not enforced: %s; see `ci-daemon doctor`", part.resource, part.how)


def _warn_of_unusable_passkeys(config: Config) -> None:
    warning = RelyingParty.of(config.identity, config.http).warning
    if warning is not None:
        _log.warning("nobody can sign in with a passkey: %s", warning)


def _signals() -> tuple[threading.Event, threading.Event]:
    """Install the signal handlers: return the events that SIGTERM and SIGINT, and SIGHUP, set."""
    stop, hangup = threading.Event(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    signal.signal(signal.SIGHUP, lambda _number, _frame: hangup.set())
    signal.signal(signal.SIGUSR1, lambda _number, _frame: dump())
    return stop, hangup


def _run(stop: threading.Event, hangup: threading.Event, reloader: Reloader) -> None:
    """Reload, feed the watchdog, adapt to the load; until a stop signal, or restarts do not help."""
    while not stop.wait(_poll_interval(reloader.notifier)):
        if reloader.engine.broken.is_set():
            _log.error("actors fail too often for restarts to help: the process exits, to be restarted")
            return
        if hangup.is_set():
            hangup.clear()
            reloader.reload()
        adapt_switch_interval()
        reloader.notifier.alive()


def _drain(stop: threading.Event, engine: Engine, storage: Storage, notifier: Notifier) -> None:
    """Wait until no VM is at work, a second signal comes, or the engine breaks."""
    while (left := _vms_in_use(storage)) and not engine.broken.is_set():
        notifier.status(f"draining: {counted(left, 'VM')} in use")
        if stop.wait(_poll_interval(notifier)):
            return
        notifier.alive()


def _vms_in_use(storage: Storage) -> int:
    """Return the number of VMs in use; VMs on hold outlive the service and do not count."""
    counts = storage.leases.counts()
    return counts.get(LeaseState.ACTIVE, 0) + counts.get(LeaseState.CREATING, 0) - len(storage.holds.open())


def _poll_interval(notifier: Notifier) -> float:
    return min(_POLL_SECONDS, notifier.heartbeat_seconds or _POLL_SECONDS)


def _stop_leaked_actors() -> None:
    """Log actors that are still running as errors, and stop them."""
    remaining = pykka.ActorRegistry.get_all()
    for actor in remaining:
        _log.error("the actor %s was left running", actor)
    if remaining:
        pykka.ActorRegistry.stop_all(timeout=_POLL_SECONDS)
