"""The process of the service: its limit of open files, its switch interval, and dumps of its threads."""

from __future__ import annotations

import logging
import resource
import sys
import threading
import traceback
from typing import TYPE_CHECKING, cast

import pykka

from actors import doing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from queue import SimpleQueue

_log = logging.getLogger(__name__)

_MAX_LISTED = 500
_MAX_FRAMES = 25

_MIN_FILES = 512
_WANTED_FILES = 65_536

_SHORTEST_SECONDS = 0.001
_SECONDS_PER_THREAD = 20e-6


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
        waiting = cast("SimpleQueue[object]", actor.actor_inbox).qsize()
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


class TooFewFiles(Exception):
    """The host lets the process open too few files."""


def raise_open_file_limit() -> None:
    """Raise the soft limit, which shells set low, to the hard limit, at most 65,536.

    Raises TooFewFiles if the hard limit is below 512.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _WANTED_FILES if hard == resource.RLIM_INFINITY else min(hard, _WANTED_FILES)
    if limit < _MIN_FILES:
        raise TooFewFiles(
            f"only {limit} files may be open at once, the service needs {_MIN_FILES}: raise the limit, as with"
            f" `ulimit -Hn {_WANTED_FILES}` as root, or LimitNOFILE={_WANTED_FILES} in the unit"
        )
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def adapt_switch_interval() -> None:
    """Set the interval for the threads that there are now."""
    sys.setswitchinterval(switch_interval(threading.active_count()))


def switch_interval(threads: int) -> float:
    """Return the seconds for so many threads: at most 50,000 wake-ups a second of all together.

    A request gives up the interpreter at each query and system call, and while another thread computes it waits for an
    interval each time: at Python's 5 ms a health check would take 20 beside a page that takes long.

    A thread that waits for the interpreter asks for it once in an interval. Thousands of running jobs have thousands of
    threads, and at 5 ms their asking alone would take all of the CPU.
    """
    return max(_SHORTEST_SECONDS, threads * _SECONDS_PER_THREAD)
