"""Dump every thread's stack and every actor's mailbox size to the log (SIGUSR1)."""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from typing import TYPE_CHECKING, cast

import pykka

from actors import doing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from queue import Queue

_log = logging.getLogger(__name__)

_MAX_LISTED = 500
_MAX_FRAMES = 25


def dump() -> None:
    """Dump to the log in a thread of its own and return at once.

    The dump has at most 500 actors and 500 threads.
    """
    threading.Thread(target=_write, name="dump", daemon=True).start()


def _write() -> None:
    actors = pykka.ActorRegistry.get_all()
    threads = [thread for thread in threading.enumerate() if thread is not threading.current_thread()]
    _log.warning("dump of %d actors and %d threads, requested by SIGUSR1", len(actors), len(threads))
    for actor in actors[:_MAX_LISTED]:
        waiting = cast("Queue[object]", actor.actor_inbox).qsize()
        _log.warning(
            "actor %s %s: %d messages wait; %s", actor.actor_class.__name__, actor.actor_urn, waiting, doing(actor)
        )
    for record in _stacks(threads[:_MAX_LISTED]):
        _log.handle(record)


def _stacks(threads: list[threading.Thread]) -> Iterator[logging.LogRecord]:
    """Yield a log record per thread with its stack, cut to the innermost frames."""
    frames = sys._current_frames()  # noqa: SLF001 - the only way to see another thread's stack
    for thread in threads:
        frame = frames.get(thread.ident or 0)
        if frame is not None:
            stack = "".join(traceback.format_list(traceback.extract_stack(frame)[-_MAX_FRAMES:])).rstrip()
            kind = "daemon thread" if thread.daemon else "thread"
            record = _log.makeRecord(_log.name, logging.WARNING, __file__, 0, f"{kind} %s", (thread.name,), None)
            record.stack_info = stack
            yield record
