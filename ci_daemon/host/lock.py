"""One service per state directory: it holds a lock that the kernel drops when the process ends."""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, TextIO

from storage import NotInitialized, immutable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOCK = "ci-daemon.lock"
"""The name of the lock file."""


class AlreadyServed(Exception):
    """Another process serves the state directory; the message names it."""


@immutable
class ServingProcess:
    """The process that serves a state directory; ``url`` is None until the service answers there.

    ``since`` is when it began to answer, in seconds since the epoch. ``watchdog`` is the number of seconds of silence
    after which systemd restarts it, None without a watchdog.
    """

    pid: int
    url: str | None = None
    release: str | None = None
    since: float | None = None
    watchdog: float | None = None


class Lock:
    """A state directory held for this process."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._write(ServingProcess(os.getpid()))

    def record_url(self, url: str, watchdog: float | None = None) -> None:
        """Record for other processes the URL at which the service answers from now on."""
        from importlib.metadata import version  # noqa: PLC0415 - takes longer than to read the lock, as every command does

        self._write(ServingProcess(os.getpid(), url, version("ci-daemon"), time.time(), watchdog))

    def _write(self, process: ServingProcess) -> None:
        self._file.seek(0)
        self._file.truncate()
        json.dump(asdict(process), self._file)
        self._file.flush()


@contextmanager
def serving(directory: Path) -> Iterator[Lock]:
    """Hold the state directory for this process alone.

    The lock is a POSIX record lock: it belongs to the process, so that VMs and other children never hold it.

    Raises:
        AlreadyServed: another process holds it.
        NotInitialized: the directory does not exist.
    """
    try:
        descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        raise NotInitialized(directory) from None
    with os.fdopen(descriptor, "r+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = _read(file)
            raise AlreadyServed(
                f"{f'process {holder.pid}' if holder else 'another process'} serves {directory} already: "
                "stop it first, or give another --state-dir"
            ) from None
        yield Lock(file)
        file.truncate(0)


def served_by(directory: Path) -> ServingProcess | None:
    """Return the process that serves the directory, None if there is none.

    Must not be called in the serving process: closing the file would release its lock.
    """
    try:
        with (directory / LOCK).open("r+", encoding="utf-8") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return _read(file)
    except OSError:
        return None
    return None


def _read(file: TextIO) -> ServingProcess | None:
    """Return the holder of the lock; None if it has not written its entry yet."""
    try:
        return ServingProcess(**json.load(file))
    except (ValueError, TypeError):
        return None
