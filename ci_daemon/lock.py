"""One daemon per state directory: whoever serves it holds a lock that the kernel drops with the process."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["AlreadyServed", "serving", "serving_pid"]

_NAME = "ci-daemon.lock"


class AlreadyServed(Exception):  # noqa: N818 - says what is the case, as the other refusals do
    """Another process serves the state directory; the message names it."""


@contextmanager
def serving(directory: Path) -> Iterator[None]:
    """Hold the state directory for this process alone.

    The lock is a POSIX record lock: it belongs to the process, so that VMs and other children never hold it.

    Raises:
        AlreadyServed: another process holds it.
    """
    path = directory / _NAME
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = file.read().strip() or "unknown"
            raise AlreadyServed(
                f"process {holder} serves {directory} already: stop it first, or give another --state-dir"
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
        file.truncate(0)


def serving_pid(directory: Path) -> int | None:
    """Return the process id of the daemon that serves the directory, None while there is none."""
    try:
        with (directory / _NAME).open("r+", encoding="ascii") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return int(file.read().strip() or 0) or None
    except OSError:
        return None
    return None
