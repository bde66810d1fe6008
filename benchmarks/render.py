"""A build from source alone: the time from its POST to the first line of its first job."""

from __future__ import annotations

import base64
from contextlib import closing
from functools import partial
from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.figures import Benchmark, interleaved
from benchmarks.service import serving
from storage import LeaseState, Storage, SystemClock
from tests.e2e.pipelines import one
from tests.e2e.sources import archive
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.figures import Figure
    from benchmarks.service import Service
    from benchmarks.testbed import Testbed

_ROUNDS = 5
_TIMEOUT_SECONDS = 30.0
_PIPELINE = """
import harmont as hm

@hm.pipeline("demo")
def demo():
    return hm.sh("echo line")
"""

_YAML = "jobs: {demo: {run: echo line}}"


def _measure(testbed: Testbed) -> Iterator[Figure]:
    numbers = count()
    fresh = (_source(f"# {number}\n{_PIPELINE}") for number in numbers)
    same = _source(_PIPELINE)
    with serving(testbed) as service, closing(Storage.open(testbed.folder / "state", SystemClock())) as storage:
        planned = partial(_first_line, service, pipeline_ir=one("echo line"), source_b64=same)

        def with_a_stock() -> float:
            until(lambda: _parked(storage, for_renders=False), "a parked VM")
            return planned()

        def after_another() -> float:
            until(lambda: all(_parked(storage, for_renders=each) for each in (True, False)), "a VM for the render")
            return _first_line(service, source_b64=next(fresh))

        _first_line(service, source_b64=next(fresh))

        def in_yaml() -> float:
            until(lambda: _parked(storage, for_renders=False), "a parked VM")
            return _first_line(service, source_b64=_source(f"# {next(numbers)}\n{_YAML}", ".hm/demo.yml"))

        in_yaml()  # the first one imports what reads YAML

        yield interleaved(
            "in YAML; the baseline is in Python, for which a VM waits", "ms", _ROUNDS, in_yaml, after_another
        )
        yield interleaved("never rendered before, a VM waits", "ms", _ROUNDS, after_another, with_a_stock)
        yield interleaved(
            "never rendered before",
            "ms",
            _ROUNDS,
            lambda: _first_line(service, source_b64=next(fresh)),
            planned,
        )
        _first_line(service, source_b64=same)
        rendered = partial(_first_line, service, source_b64=same)
        yield interleaved("rendered before", "ms", _ROUNDS, rendered, planned)


def _parked(storage: Storage, *, for_renders: bool) -> bool:
    """Tell whether a VM waits for a render, or for a job."""
    leases = [lease for lease in storage.leases.live() if lease.state is LeaseState.PARKED]
    return any(lease.is_preview is for_renders for lease in leases)


def _first_line(service: Service, **fields: str) -> float:
    """Return the milliseconds from posting a build to the first byte of its job's log."""
    started = perf_counter()
    build = service.post(fields)
    (job,) = service.get(f"{build}/jobs")["data"]
    log = service.log(f"{build}/jobs/{job['id']}/log")
    next(log)
    took = (perf_counter() - started) * 1000
    for _ in log:
        pass
    service.finish(build, _TIMEOUT_SECONDS)
    return took


def _source(pipeline_file: str, name: str = ".hm/pipeline.py") -> str:
    return base64.b64encode(archive({name: pipeline_file})).decode()


RENDER = Benchmark(
    name="render",
    title="From the POST of a build to the first line of its first job",
    baseline="a build of the same source, which brings its `pipeline_ir` too and is not rendered.",
    measure=_measure,
)
