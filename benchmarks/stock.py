"""A build of one job, with and without a parked VM."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from actors import PoolSettings
from benchmarks.baseline_vm import BaselineVms
from benchmarks.figures import Benchmark, interleaved
from benchmarks.service import serving
from benchmarks.testbed import first_command
from storage import LeaseState, Storage, SystemClock
from tests.e2e.pipelines import one
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.baseline_vm import BaselineVm
    from benchmarks.figures import Figure
    from benchmarks.service import Service
    from benchmarks.testbed import Testbed

_ROUNDS = 15
_PARKED = PoolSettings().parked
_TIMEOUT_SECONDS = 30.0


def _measure(testbed: Testbed) -> Iterator[Figure]:
    vms = BaselineVms(testbed)
    with (
        _serving(testbed, parked=_PARKED) as service,
        closing(Storage.open(testbed.folder / str(_PARKED) / "state", SystemClock())) as storage,
        vms.start(network=False) as running,
    ):
        baseline = partial(_another_sshd, vms, running)
        for label, until_then in (("until its command runs", _until_running), ("until its end", _until_end)):
            ours = partial(_with_stock, service, storage, until_then)
            yield interleaved(f"with a parked VM, {label}", "ms", _ROUNDS, ours, baseline)
    with _serving(testbed, parked=0) as service:
        yield interleaved("without", "ms", _ROUNDS, partial(_until_end, service), partial(_cold, vms))


@contextmanager
def _serving(testbed: Testbed, *, parked: int) -> Iterator[Service]:
    """Run a service with at most that many parked VMs, in a folder named after the number."""
    folder = testbed.folder / str(parked)
    folder.mkdir()
    with serving(replace(testbed, folder=folder), CI_DAEMON_POOL_PARKED=str(parked)) as service:
        yield service


def _with_stock(service: Service, storage: Storage, measure: Callable[[Service], float]) -> float:
    until(lambda: storage.leases.counts().get(LeaseState.PARKED), "a parked VM")
    return measure(service)


def _until_running(service: Service) -> float:
    """Run a build, and return the milliseconds from its creation to the start of its command."""
    build = _run(service)
    (job,) = service.get(f"{build}/jobs")["data"]
    return _milliseconds(service.get(build)["created_at"], job["started_at"])


def _until_end(service: Service) -> float:
    """Run a build, and return the milliseconds from its creation to its end."""
    record = service.get(_run(service))
    return _milliseconds(record["created_at"], record["finished_at"])


def _run(service: Service) -> str:
    build = service.build(one("true"))
    service.finish(build, _TIMEOUT_SECONDS)
    return build


def _milliseconds(since: str, until_then: str) -> float:
    return (datetime.fromisoformat(until_then) - datetime.fromisoformat(since)).total_seconds() * 1000


def _another_sshd(vms: BaselineVms, running: BaselineVm) -> float:
    started = perf_counter()
    with vms.another_sshd(running) as endpoint:
        return first_command(endpoint, started)


def _cold(vms: BaselineVms) -> float:
    started = perf_counter()
    with vms.start(network=True) as vm:
        took = first_command(vm.endpoint, started)
    vms.remove(vm)
    return took


STOCK = Benchmark(
    name="stock",
    title="A build of one job of `true`, from its row in the database on, by the service's clock",
    baseline=(
        "the same steps without the service: with a parked VM, one more sshd in a sandbox that runs already, the SSH "
        "handshake and `true`; without, those of a sandbox that is made for it (benchmarks/baseline_vm.sh)."
    ),
    measure=_measure,
)
