"""A build of one job, with and without a warm VM."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from benchmarks.by_hand import ByHand
from benchmarks.figures import Benchmark, by_turns
from benchmarks.place import first_command
from benchmarks.service import serving
from storage import LeaseState, Storage, SystemClock
from tests.e2e.daemon import until
from tests.e2e.pipelines import one

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.by_hand import Sandbox
    from benchmarks.figures import Figure
    from benchmarks.place import Place
    from benchmarks.service import Service

__all__ = ["WARM"]

_ROUNDS = 15
_BUILD_SECONDS = 30.0


def _measure(place: Place) -> Iterator[Figure]:
    hand = ByHand(place)
    with (
        _serving(place, warm=1) as service,
        closing(Storage.open(place.folder / "1" / "state", SystemClock())) as storage,
        hand.sandbox(network=False) as running,
    ):
        sides = partial(_with_warm_vm, service, storage), partial(_entered, hand, running)
        yield by_turns("with a warm VM", "ms", _ROUNDS, *sides)
    with _serving(place, warm=0) as service:
        yield by_turns("without", "ms", _ROUNDS, partial(_job, service), partial(_made, hand))


@contextmanager
def _serving(place: Place, *, warm: int) -> Iterator[Service]:
    """Run a service with that many warm VMs, in a folder named after the number."""
    folder = place.folder / str(warm)
    folder.mkdir()
    with serving(replace(place, folder=folder), CI_DAEMON_POOL_WARM=str(warm)) as service:
        yield service


def _with_warm_vm(service: Service, storage: Storage) -> float:
    until(lambda: storage.leases.counts().get(LeaseState.WARM), "a warm VM")
    return _job(service)


def _job(service: Service) -> float:
    """Run a build, and return the milliseconds from its creation to its end by the service's clock."""
    build = service.build(one("true"))
    service.finish(build, _BUILD_SECONDS)
    record = service.get(build)
    began, ended = (datetime.fromisoformat(record[name]) for name in ("created_at", "finished_at"))
    return (ended - began).total_seconds() * 1000


def _entered(hand: ByHand, running: Sandbox) -> float:
    began = perf_counter()
    with hand.entered(running) as endpoint:
        return first_command(endpoint, began)


def _made(hand: ByHand) -> float:
    began = perf_counter()
    with hand.sandbox(network=True) as sandbox:
        took = first_command(sandbox.endpoint, began)
    hand.remove(sandbox)
    return took


WARM = Benchmark(
    name="warm",
    title="A build of one job of `true`, from its row in the database to its end",
    floor=(
        "the same steps by hand: with a warm VM, one more sshd in a sandbox that runs already, the SSH handshake and "
        "`true`; without, those of a sandbox that is made for it (benchmarks/by_hand.sh)."
    ),
    measure=_measure,
)
