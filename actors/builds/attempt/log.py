"""The log of one attempt: opened when it is written, masked, and patient with a full disk."""

from __future__ import annotations

import contextlib
import errno
import logging
import threading
from typing import TYPE_CHECKING

from storage import Masker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from actors.builds.attempt.vm_connection import VmConnection
    from storage import Build, Job, LogWriter, Storage

__all__ = ["AttemptLog"]

_logger = logging.getLogger(__name__)

_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}
_DISK_FULL_PAUSE = 1.0


class AttemptLog:
    """Output and notices of an attempt, masked by its secrets. Each method is safe in any thread.

    Once the attempt is abandoned, the log stays closed, so that a successor can write it.
    """

    def __init__(
        self, storage: Storage, build: Build, job: Job, connection: VmConnection, on_output: Callable[[], None]
    ) -> None:
        self._storage = storage
        self._build = build
        self._job = job
        self._connection = connection
        self._on_output = on_output
        self._lock = threading.Lock()
        self._writer: LogWriter | None = None
        self._masker: Masker | None = None

    def hide(self, secrets: Iterable[str]) -> None:
        """Mask these secrets in all that follows. Called before the log is opened."""
        self._masker = Masker.hiding(secrets)

    def masked(self, text: str) -> str:
        """Mask the job's secrets in a text, if this process gave them to the command or masked its output."""
        return text if self._masker is None else self._masker.masked(text)

    def opened(self) -> LogWriter:
        """Return the writer; open it if it is closed. Raises Abandoned and OSError."""
        with self._lock:
            if self._writer is None:
                self._connection.check()
                if self._masker is None:
                    self._masker = Masker.hiding(self._storage.secrets.of_attempt(self._job).values())
                logs, job = self._storage.logs, self._job
                self._writer = logs.writer(self._build.uuid, job.uuid, job.attempt, self._masker)
            return self._writer

    def notice(self, text: str) -> None:
        """Write a notice of the service. Raises Abandoned."""
        while True:
            try:
                self.opened().notice(text)
            except OSError as error:
                self.wait_for_room(error)
            else:
                break
        self._on_output()

    def wait_for_room(self, error: OSError) -> None:
        """Close a log that could not be written, and pause if the disk is full.

        Raises Abandoned, and ``error`` if it has another cause.
        """
        with contextlib.suppress(OSError):
            self.close()
        self._connection.check()
        if error.errno not in _DISK_FULL:
            raise error
        _logger.warning("job %s waits for room for its log: %s", self._job.uuid, error)
        self._connection.pause(_DISK_FULL_PAUSE)

    def end(self) -> None:
        """Write the output that masking still keeps, and close the log: no more output will come."""
        if self._writer is not None:
            self._writer.end()
        self.close()

    def close(self) -> None:
        """Close the log; the next writer opens it again."""
        with self._lock:
            writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
