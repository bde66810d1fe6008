"""The daemon as the host's kernel and its database see it: nothing is asked of the daemon itself."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_TICKS = os.sysconf("SC_CLK_TCK")
_CHANGE_COUNTER = slice(8, 12)
"""In the header of SQLite's WAL index: the count of commits (sqlite.org/walformat.html)."""


@dataclass(frozen=True, slots=True)
class Rates:
    """The averages between two observations, for each second; ``cores`` is CPU time."""

    cores: float
    commits: float
    wakeups: float
    log_bytes: float


@dataclass(frozen=True, slots=True)
class Observation:
    """The counts until ``at``, a time of `perf_counter`, and all that the process holds then."""

    at: float
    cpu_seconds: float
    commits: int
    wakeups: int
    log_bytes: int
    threads: int
    files: int
    memory_bytes: int

    def since(self, before: Observation) -> Rates:
        """Return what happened in each second since an earlier observation."""
        seconds = self.at - before.at
        return Rates(
            (self.cpu_seconds - before.cpu_seconds) / seconds,
            (self.commits - before.commits) / seconds,
            (self.wakeups - before.wakeups) / seconds,
            (self.log_bytes - before.log_bytes) / seconds,
        )


@dataclass(frozen=True, slots=True)
class Observer:
    """Observes a daemon by the id of its process and its state directory."""

    pid: int
    state: Path

    def observe(self) -> Observation:
        """Return what is to be seen now."""
        process = Path(f"/proc/{self.pid}")
        fields = (process / "stat").read_text("ascii").rpartition(")")[2].split()
        status = _fields(process / "status")
        wakeups = sum(_switches(thread) for thread in (process / "task").iterdir())
        return Observation(
            perf_counter(),
            (int(fields[11]) + int(fields[12])) / _TICKS,
            int.from_bytes((self.state / "ci-daemon.sqlite3-shm").read_bytes()[_CHANGE_COUNTER], sys.byteorder),
            wakeups,
            sum(log.stat().st_size for log in (self.state / "logs").rglob("*.log")),
            int(status["Threads"]),
            len(list((process / "fd").iterdir())),
            int(status["VmRSS"].split()[0]) * 1024,
        )

    def jobs(self) -> Counter[str]:
        """Return how many jobs are in each state."""
        return Counter(dict(self._rows("SELECT state, count(*) FROM jobs GROUP BY state")))

    def leases(self) -> int:
        """Return how many leases have not ended."""
        return sum(count for _, count in self._rows("SELECT '', count(*) FROM leases WHERE state <> 'ended'"))

    def _rows(self, query: str) -> Iterable[tuple[str, int]]:
        with closing(sqlite3.connect(f"file:{self.state / 'ci-daemon.sqlite3'}?mode=ro", uri=True)) as database:
            return database.execute(query).fetchall()


def _fields(file: Path) -> dict[str, str]:
    return dict(line.split(":", 1) for line in file.read_text("ascii", errors="replace").splitlines())


def _switches(thread: Path) -> int:
    """Return how often a thread went to sleep, or 0 if it has ended meanwhile."""
    try:
        return int(_fields(thread / "status")["voluntary_ctxt_switches"])
    except (FileNotFoundError, ProcessLookupError):
        return 0
