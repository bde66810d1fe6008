"""The throughput of a job's output to a reader who follows the log."""

from __future__ import annotations

import shlex
import subprocess
from functools import partial
from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.baseline_vm import BaselineVms
from benchmarks.figures import Benchmark, interleaved
from benchmarks.service import serving
from tests.e2e.pipelines import one

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.figures import Figure
    from benchmarks.service import Service
    from benchmarks.testbed import Testbed

_BYTES = 200_000_000
_ROUNDS = 3
_CHUNK_BYTES = 1 << 20
_SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
"""A secret of the job, which its output does not contain: masking looks for it in every byte."""

_PRINT = f"yes 'A line of sixty-four characters, as compilers like to print them.' | head -c {_BYTES}"


class ThroughputMeter:
    """Measures the rate of so many bytes from the first chunk on, without the time before it."""

    def __init__(self, expected: int) -> None:
        self.bytes = 0
        self._expected = expected
        self._began = self._ended = 0.0
        self._first = 0

    def add(self, size: int) -> None:
        """Count ``size`` bytes that have just arrived."""
        self._ended = perf_counter()
        if not self.bytes:
            self._began, self._first = self._ended, size
        self.bytes += size

    @property
    def rate(self) -> float:
        """MB per second. Raises RuntimeError if bytes are missing."""
        if self.bytes != self._expected:
            raise RuntimeError(f"{self.bytes} bytes came instead of {self._expected}")
        return (self.bytes - self._first) / (self._ended - self._began) / 1e6


def _measure(testbed: Testbed) -> Iterator[Figure]:
    vms = BaselineVms(testbed)
    with serving(testbed, CI_DAEMON_JOBS_LOG_LIMIT_BYTES=str(2 * _BYTES)) as service:
        service.secret("TOKEN", _SECRET)
        sides = partial(_log, service), partial(_pipe, vms, count())
        yield interleaved("200 MB of log, more is better", "MB/s", _ROUNDS, *sides)


def _log(service: Service) -> float:
    build = service.build(one(_PRINT, runner_args={"secrets": ["TOKEN"]}))
    (job,) = service.get(f"{build}/jobs")["data"]
    meter = ThroughputMeter(_BYTES)
    for chunk in service.log(f"{build}/jobs/{job['id']}/log"):
        meter.add(chunk)
    return meter.rate


def _pipe(vms: BaselineVms, numbers: Iterator[int]) -> float:
    name = f"pipe-{next(numbers)}"
    proxy = shlex.join(vms.argv(name, network=True)).replace("%", "%%")
    options = [f"ProxyCommand={proxy}", f"UserKnownHostsFile={vms.known_hosts}", "Ciphers=aes128-gcm@openssh.com"]
    argv = ["ssh", "-F", "none", "-i", str(vms.key), *(f"-o{option}" for option in options), "root@sandbox", _PRINT]
    meter = ThroughputMeter(_BYTES)
    with subprocess.Popen(argv, cwd=vms.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=0) as ssh:
        assert ssh.stdout
        while chunk := ssh.stdout.read(_CHUNK_BYTES):
            meter.add(len(chunk))
    return meter.rate


LOGS = Benchmark(
    name="logs",
    title="The log of a job that prints 200 MB, to a reader of the API who follows it",
    baseline="the same command through a plain `ssh` pipe from a sandbox without the service, with the same cipher.",
    measure=_measure,
)
