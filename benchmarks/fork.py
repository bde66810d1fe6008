"""A fork of a VM from a large snapshot, compared with a fork from a small one."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING
from uuid import uuid4

from actors.vms import Connection, VmSpec
from benchmarks.figures import Benchmark, by_turns
from benchmarks.place import first_command
from storage import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.figures import Figure
    from benchmarks.place import Place

__all__ = ["FORK"]

_ROUNDS = 20
_LITTLE = "head -c 10K /dev/zero >/workspace/data"
_MUCH = "cd /workspace && for n in $(seq 512); do head -c 4M /dev/zero >data-$n; done"
_WRITING_SECONDS = 120.0


def _measure(place: Place) -> Iterator[Figure]:
    parents = [_parent(place, script) for script in (_MUCH, _LITTLE)]
    for network in (False, True):
        much, little = (partial(_fork, place, parent, network=network) for parent in parents)
        yield by_turns(f"over 2 GB, {'with a' if network else 'without'} network", "ms", _ROUNDS, much, little)


def _parent(place: Place, script: str) -> str:
    """Run a script in a VM, snapshot its disk, and return the snapshot's name."""
    vm, snapshot = str(uuid4()), str(uuid4())
    place.provider.create(VmSpec(vm, place.image, network=False))
    with Connection(place.provider.connect(vm), SystemClock()) as connection:
        done = connection.run(script, timeout=_WRITING_SECONDS)
    if done.exit_code != 0:
        raise RuntimeError(f"{script}: {done.stderr.decode(errors='replace')}")
    place.provider.snapshot(vm, snapshot)
    place.provider.destroy(vm)
    return snapshot


def _fork(place: Place, parent: str, *, network: bool) -> float:
    vm = str(uuid4())
    began = perf_counter()
    place.provider.create(VmSpec(vm, place.image, snapshot=parent, network=network))
    took = first_command(place.provider.connect(vm), began)
    place.provider.destroy(vm)
    return took


FORK = Benchmark(
    name="fork",
    title="A fork, from the wish for a VM on another's disk to the answer of its first command",
    floor="a fork over 10 KB.",
    measure=_measure,
)
