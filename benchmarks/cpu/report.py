"""The CPU time of a job of `true`, in its parts, beside that of a shell script."""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from rich.table import Table

from benchmarks.baseline_vm import BaselineVms
from benchmarks.builds import JOBS, fan, run_fan_by_hand
from benchmarks.cpu.processes import Ended, Recording, recorded
from benchmarks.cpu.profiled import FILE_VARIABLE
from benchmarks.service import serving
from storage import LeaseState, Storage, SystemClock
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.service import Service
    from benchmarks.testbed import Testbed

_ROUNDS = 2
_TIMEOUT_SECONDS = 120
_MOST_ROWS = 24
_CLOCK_OF_PROCESS = 2


@dataclass(frozen=True, slots=True)
class _Run:
    """One fan: the CPU seconds of the service, or of the script's client, and its first and last instant."""

    seconds: float
    began: float
    ended: float


class CpuBenchmark:
    """The CPU time of a job, of the service by thread and of its VM by process."""

    name = "cpu"
    title = f"CPU time of each job of a fan of {JOBS} of `true`, as root; what a process takes to end is not in it"
    baseline = "the same jobs by the shell script of `lease`, as many at a time, with the service's SSH client."

    def report(self, testbed: Testbed) -> Table:
        """Measure both in turns; return a table of their parts."""
        vms = BaselineVms(testbed)
        profile = testbed.folder / "profile"
        os.environ[FILE_VARIABLE] = str(profile)
        ours, theirs = [], []
        with (
            recorded() as recording,
            serving(testbed, program="benchmarks.cpu.profiled") as service,
            closing(Storage.open(testbed.folder / "state", SystemClock())) as storage,
        ):
            daemon = service.daemon.pid
            _run(service, storage)
            for _ in range(_ROUNDS):
                ours.append(_timed(partial(_run, service, storage), lambda: _cpu_seconds(daemon)))
                own = lambda: time.process_time() - recording.own_seconds()  # noqa: E731 - used once
                theirs.append(_timed(partial(run_fan_by_hand, vms), own))
        made = Table(box=None, pad_edge=False, header_style="bold")
        made.add_column("", min_width=60)
        for heading in ("processes", "ms of CPU", "page faults"):
            made.add_column(heading, justify="right")
        threads: dict[str, float] = json.loads(profile.read_bytes())
        zygote = recording.zygote(daemon)
        of_zygote = zygote.seconds / (_ROUNDS + 1) * _ROUNDS
        _add(made, ("the service", "its VMs"), ours, recording, daemon, of_zygote)
        _add(made, ("the script's client", "its processes"), theirs, recording, os.getpid(), 0.0, without=daemon)
        _add_threads(made, threads, sum(each.seconds for each in ours))
        return made


def _run(service: Service, storage: Storage) -> None:
    """Run the jobs, until their VMs are gone and as many are parked as the service wants.

    The service is not asked about them, so that its answers are no part of a job. Raises RuntimeError if it fails one.
    """
    service.build(fan())
    idle = {LeaseState.PARKED}
    until(
        lambda: not storage.builds.unfinished_counts() and set(storage.leases.counts()) == idle,
        "the end of all jobs, and parked VMs",
        _TIMEOUT_SECONDS,
    )
    if failures := storage.service_failures.latest(1):
        raise RuntimeError(failures[0].error_message)


def _timed(jobs: Callable[[], None], clock: Callable[[], float]) -> _Run:
    """Run jobs; return what a clock of CPU time shows of it."""
    began, before = time.monotonic(), clock()
    jobs()
    return _Run(clock() - before, began, time.monotonic())


def _cpu_seconds(process: int) -> float:
    """Return the CPU time of all threads of a process, the ended ones too."""
    return time.clock_gettime(~process << 3 | _CLOCK_OF_PROCESS)


def _add(
    made: Table,
    names: tuple[str, str],
    runs: list[_Run],
    recording: Recording,
    ancestor: int,
    of_zygote: float,
    without: int = 0,
) -> None:
    jobs = JOBS * len(runs)
    labels = recording.labels(ancestor)
    parts: defaultdict[str, list[Ended]] = defaultdict(list)
    others = {each.pid for each in recording.descendants(without)}
    for each in recording.descendants(ancestor):
        if each.pid not in others and any(run.began <= each.at <= run.ended for run in runs):
            parts[labels[each.pid]].append(each)
    every = [each for part in parts.values() for each in part]
    own_ms = sum(run.seconds for run in runs) * 1000 / jobs
    sum_ms = own_ms + (of_zygote + sum(each.seconds for each in every)) * 1000 / jobs
    made.add_row(" and ".join(names), "", f"{sum_ms:.1f}", "", style="bold")
    made.add_row(f"  {names[0]}", "", f"{own_ms:.1f}", "")
    if of_zygote:
        made.add_row("  the zygote", "", f"{of_zygote * 1000 / jobs:.1f}", "")
    made.add_row(f"  {names[1]}", *_figures(every, jobs))
    ranked = sorted(parts.items(), key=lambda part: -sum(each.seconds for each in part[1]))
    for label, part in ranked[:_MOST_ROWS]:
        made.add_row(f"    {label}", *_figures(part, jobs))
    made.add_section()


def _figures(part: list[Ended], jobs: int) -> tuple[str, str, str]:
    seconds, faults = sum(each.seconds for each in part), sum(each.faults for each in part)
    return f"{len(part) / jobs:.2f}", f"{seconds * 1000 / jobs:.2f}", f"{faults / jobs:,.0f}"


def _add_threads(made: Table, threads: dict[str, float], seconds: float) -> None:
    """Add what each kind of thread had of all, from the start of the service on."""
    made.add_row("the service, by thread", style="bold")
    for name, part in sorted(threads.items(), key=lambda thread: -thread[1])[:_MOST_ROWS]:
        milliseconds = seconds * 1000 / (_ROUNDS * JOBS) * part / sum(threads.values())
        made.add_row(f"  {name}", "", f"{milliseconds:.2f}", "")
    made.add_section()


CPU = CpuBenchmark()
