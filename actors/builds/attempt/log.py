"""The log of one attempt: opened when it is written, masked, and patient with a full disk.

It begins with notices: the attempt, secrets that are withheld, a substitute image.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import threading
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from storage import Masker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from actors.builds.attempt.assignment import Assignment
    from actors.builds.attempt.vm import VmConnection
    from actors.ir import ProblemRow
    from actors.vms import Images
    from storage import Build, Clock, Job, LogWriter, OutputShare, Storage

_logger = logging.getLogger(__name__)

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS}
"""Errors that the owner can mend while a job waits: a full disk, or a folder that cannot be written."""

_PASSING = NO_ROOM | {errno.EBADF}
"""Errors after which a log is opened again: another thread had no room in it, too, and has closed it."""

_PAUSE = 1.0
_SEARCHED_BYTES = 16 << 20
"""The size of the beginning of a log that is searched for problems."""

MOST_FOUND = 1_000


class LogNotKept(Exception):
    """Output was lost because it could not be kept for too long."""


class AttemptLog:
    """Output and notices of an attempt, masked by its secrets. Each method is safe in any thread.

    What cannot be written is tried again for ``patience`` seconds. Once the attempt is abandoned, the log stays closed,
    so that a successor can write it.
    """

    def __init__(
        self,
        storage: Storage,
        build: Build,
        job: Job,
        connection: VmConnection,
        on_output: Callable[[], None],
        *,
        clock: Clock,
        patience: float,
    ) -> None:
        self._storage = storage
        self._build = build
        self._job = job
        self._connection = connection
        self._on_output = on_output
        self._clock = clock
        self._patience = patience
        self._failing_since: float | None = None
        self._lock = threading.RLock()
        self._writer: LogWriter | None = None
        self._masker: Masker | None = None

    def hide(self, secrets: Iterable[str]) -> None:
        """Mask these secrets in all that follows. Called before the log is opened."""
        self._masker = Masker.hiding(secrets)

    def masked(self, text: str) -> str:
        """Mask the job's secrets in a text, if this process gave them to the command or masked its output."""
        return text if self._masker is None else self._masker.masked(text)

    @property
    def share_of_output(self) -> OutputShare:
        """The share of the command's output that the log keeps."""
        return self._storage.logs.share_of_output(self._masker or Masker())

    def opened(self) -> LogWriter:
        """Return the writer; open it if it is closed. Raises Abandoned and OSError."""
        with self._lock:
            if self._writer is None:
                self._connection.check()
                logs, job = self._storage.logs, self._job
                self._writer = logs.writer(self._build.uuid, job.uuid, job.attempt, self.masker)
            return self._writer

    @property
    def masker(self) -> Masker:
        """The masker of the secrets that this process or an earlier one gave to the command."""
        if self._masker is None:
            self._masker = Masker.hiding(self._storage.job_secrets.of_attempt(self._job).values())
        return self._masker

    def notice(self, text: str) -> None:
        """Write a notice of the service. Raises Abandoned, and LogNotKept."""
        while True:
            try:
                with self._lock:  # or another thread would close it meanwhile: those of services write notices, too
                    self.opened().notice(text)
            except OSError as error:
                self.wait_for_room(error)
            else:
                break
        self.written()

    def written(self) -> None:
        """Announce what was written; the time in which nothing could be written ends with it."""
        self._failing_since = None
        self._on_output()

    def wait_for_room(self, error: OSError) -> None:
        """Close a log that could not be written, and pause if that may change.

        Raises Abandoned, LogNotKept if it could not be written for too long, and ``error`` if it has another cause.
        """
        with contextlib.suppress(OSError):
            self.close()
        self._connection.check()
        if error.errno not in _PASSING:
            raise error
        now = self._clock.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        if now - self._failing_since >= self._patience:
            raise LogNotKept(why_not_kept(error.strerror, self._patience)) from error
        _logger.warning("job %s waits for room for its log: %s", self._job.uuid, error)
        self._connection.pause(_PAUSE)

    def end(self) -> None:
        """Write the output that masking still keeps, and close the log: no more output will come."""
        with self._lock:
            if self._writer is not None:
                self._writer.end()
            self.close()

    def settle(self) -> None:
        """Sync the log, before a row says that the attempt has ended. Raises Abandoned."""
        while True:
            try:
                self.close()
            except OSError as error:
                self.wait_for_room(error)
            else:
                return

    def close(self) -> None:
        """Close the log, which is on the disk then; the next writer opens it again. Raises OSError."""
        with self._lock:
            writer, self._writer = self._writer, None
            if writer is not None:
                writer.close()


def why_not_kept(error: str | None, patience: float) -> str:
    """Return why output was lost, in words."""
    return f"the output of the command could not be kept on the host for {patience:g} s: {error}"


def opening_notices(assignment: Assignment, member: str | None, images: Images, storage: Storage) -> list[str]:
    """Return the lines that a job's log opens with; ``member`` is the one of a cluster that its VM is on."""
    job, used = assignment.job, assignment.lease.image
    lines = [f"attempt {job.attempt}"] if job.attempt > 1 else []
    if member is not None:
        lines.append(f"this job runs on the member {member}")
    if assignment.build.untrusted and job.secrets:
        names = ", ".join(job.secrets)
        lines.append(f"this build is of a pull request from a fork, so it runs without its secrets: {names}")
    if assignment.build.untrusted and job.registries:
        lines.append("this build is of a pull request from a fork, so it runs without logins at registries")
    if assignment.build.untrusted and job.identity_audience is not None:
        lines.append("this build is of a pull request from a fork, so it runs without an identity token")
    if assignment.parent is None and _is_new_substitute(job, used, images, storage):
        lines.append(f'the image "{job.image}" is not on this host: "{used}" stands in for it in this build')
    return lines


def _is_new_substitute(job: Job, used: str | None, images: Images, storage: Storage) -> bool:
    """Tell whether an image stands in for the job's, and no earlier attempt has said so."""
    if job.image is None or used is None or not images.is_substitute(job.image, used):
        return False
    return storage.attempts.is_first_of_image(job.id, job.attempt)


def problems_of_logs(logs: list[str], names: list[str]) -> tuple[list[ProblemRow], int]:
    """Return the first problems that the last of a job's logs names, and the number of the others.

    Their lines count through all the logs. Runs in another process.
    """
    before = 0
    for each in logs[:-1]:
        with Path(each).open("rb") as log:
            while piece := log.read(1 << 20):
                before += piece.count(b"\n")
    with Path(logs[-1]).open("rb") as log:
        text = log.read(_SEARCHED_BYTES).decode("utf-8", "replace")
    from actors.ir import find_problems  # noqa: PLC0415 - only where it runs, in another process

    found = find_problems(text.split("\n"), names)
    rows = [
        (
            each.matcher,
            before + each.log_line,
            str(each.level),
            each.message,
            each.path,
            each.line,
            each.column,
            each.title,
        )
        for each in islice(found, MOST_FOUND)
    ]
    return rows, sum(1 for _ in found)
