"""Group commit: one sync for all that wait for their commits to be on the disk.

What was answered, numbered, debited or reported is on the disk before it is said (engine.md, "After a crash").

SQLite commits with ``synchronous=NORMAL``: the pages of a transaction are in the write-ahead log, of which a power cut
takes an end. What is left is always a first part of the transactions in their order, so to sync the file once makes all
of them durable that were committed before. SQLite itself syncs the log before it copies pages to the database, and the
database before it starts the log anew, so that a commit that is no longer in the log is on the disk as well.

With ``synchronous=FULL`` each transaction would be synced on its own, while all other writers wait.
"""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import TYPE_CHECKING

from storage.errors import DatabaseNotSynced, DatabaseUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class GroupSync:
    """The syncs of a write-ahead log. Safe in any thread.

    Transactions are numbered. The first thread that waits syncs for all that are committed by then; those that come
    meanwhile wait for it, and one of them syncs for the rest.
    """

    def __init__(self, log: Path) -> None:
        """Store the path of the write-ahead log; nothing is opened."""
        self._log = log
        self._changed = threading.Condition()
        self._begun = 0
        self._committed = 0
        self._synced = 0
        self._syncing = False
        self._failure: OSError | None = None

    def begin(self) -> None:
        """Number the transaction that is about to commit. Called by one thread at a time.

        Raises DatabaseUnavailable if a sync has failed.
        """
        with self._changed:
            self._check()
            self._begun += 1

    def end(self) -> int:
        """Note that the transaction is committed, or never will be; return its number."""
        with self._changed:
            self._committed = self._begun
            self._changed.notify_all()
            return self._committed

    def wait(self, number: int | None = None, later: Callable[[Callable[[], None]], bool] | None = None) -> None:
        """Return when a transaction is on the disk; by default, all that any thread may have read by now.

        If there is something to wait for, the wait is offered to ``later`` first, which returns True if it takes it:
        then this returns at once. Both raise DatabaseUnavailable if the log cannot be synced.
        """
        wanted = self._begun if number is None else number
        if self._synced >= wanted:
            return
        self._check()
        if later is not None and later(partial(self.wait, wanted)):
            return
        with self._changed:
            while self._synced < wanted:
                self._check()
                if self._syncing or self._committed == self._synced:
                    self._changed.wait()
                else:
                    self._sync_committed()

    def _sync_committed(self) -> None:
        """Sync what is committed now, without the lock meanwhile."""
        self._syncing = True
        reached = self._committed
        self._changed.release()
        try:
            self._sync()
        finally:
            self._changed.acquire()
            self._syncing = False
            self._changed.notify_all()
        self._synced = reached

    def _sync(self) -> None:
        try:
            log = os.open(self._log, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # the last connection has copied all of it to the database, and synced that
        except OSError as error:
            raise DatabaseUnavailable(f"the database cannot be synced now: {error}") from error
        try:
            os.fdatasync(log)
        except OSError as error:
            # The kernel reports a page that it could not write once, and the next sync would succeed without it.
            self._failure = error
            self._check()
        finally:
            os.close(log)

    def _check(self) -> None:
        if self._failure is not None:
            raise DatabaseNotSynced(
                f"the disk did not keep what was written to the database: {self._failure.strerror};"
                " check the disk, then restart the service"
            ) from self._failure
