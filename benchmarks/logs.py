"""The throughput of a job's output to a reader who follows the log."""

from __future__ import annotations

import shlex
import subprocess
from functools import partial
from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.by_hand import ByHand
from benchmarks.figures import Benchmark, by_turns
from benchmarks.service import serving
from tests.e2e.pipelines import one

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.figures import Figure
    from benchmarks.place import Place
    from benchmarks.service import Service

__all__ = ["LOGS"]

_BYTES = 200_000_000
_ROUNDS = 3
_BLOCK = 1 << 20
_PRINT = f"yes 'A line of sixty-four characters, as compilers like to print them.' | head -c {_BYTES}"


class Meter:
    """Measures the rate of bytes from the first block on, without the time before it."""

    def __init__(self) -> None:
        self.bytes = 0
        self._began = self._ended = 0.0
        self._first = 0

    def take(self, size: int) -> None:
        """Count ``size`` bytes that have just arrived."""
        self._ended = perf_counter()
        if not self.bytes:
            self._began, self._first = self._ended, size
        self.bytes += size

    @property
    def rate(self) -> float:
        """MB per second. Raises RuntimeError if bytes are missing."""
        if self.bytes != _BYTES:
            raise RuntimeError(f"{self.bytes} bytes came instead of {_BYTES}")
        return (self.bytes - self._first) / (self._ended - self._began) / 1e6


def _measure(place: Place) -> Iterator[Figure]:
    hand = ByHand(place)
    with serving(place, CI_DAEMON_JOBS_LOG_LIMIT_BYTES=str(2 * _BYTES)) as service:
        sides = partial(_log, service), partial(_pipe, hand, count())
        yield by_turns("200 MB of log, more is better", "MB/s", _ROUNDS, *sides)


def _log(service: Service) -> float:
    build = service.build(one(_PRINT))
    (job,) = service.get(f"{build}/jobs")["data"]
    meter = Meter()
    for block in service.log(f"{build}/jobs/{job['id']}/log"):
        meter.take(block)
    return meter.rate


def _pipe(hand: ByHand, numbers: Iterator[int]) -> float:
    name = f"pipe-{next(numbers)}"
    proxy = shlex.join(hand.argv(name, network=True)).replace("%", "%%")
    options = [f"ProxyCommand={proxy}", f"UserKnownHostsFile={hand.known_hosts}", "Ciphers=aes128-gcm@openssh.com"]
    argv = ["ssh", "-F", "none", "-i", str(hand.key), *(f"-o{option}" for option in options), "root@sandbox", _PRINT]
    meter = Meter()
    with subprocess.Popen(argv, cwd=hand.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=0) as ssh:
        assert ssh.stdout
        while block := ssh.stdout.read(_BLOCK):
            meter.take(len(block))
    return meter.rate


LOGS = Benchmark(
    name="logs",
    title="The log of a job that prints 200 MB, to a reader of the API who follows it",
    floor="the same command through a plain `ssh` pipe from the sshd of a sandbox by hand, with the same cipher.",
    measure=_measure,
)
