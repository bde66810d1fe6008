"""A fork of a VM from a large snapshot, compared with a fork from a small one."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING
from uuid import uuid4

from actors.vms import Connection, VmSpec, in_job
from benchmarks.figures import Benchmark, interleaved
from benchmarks.testbed import first_command
from storage import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.figures import Figure
    from benchmarks.testbed import Testbed

_ROUNDS = 20
_SMALL_DISK = "head -c 10K /dev/zero >/workspace/data"
_LARGE_DISK = "cd /workspace && for n in $(seq 512); do head -c 4M /dev/zero >data-$n; done"
_WRITE_TIMEOUT_SECONDS = 120.0


def _measure(testbed: Testbed) -> Iterator[Figure]:
    parents = [_parent(testbed, script) for script in (_LARGE_DISK, _SMALL_DISK)]
    for network in (False, True):
        large, small = (partial(_fork, testbed, parent, network=network) for parent in parents)
        yield interleaved(f"over 2 GB, {'with a' if network else 'without'} network", "ms", _ROUNDS, large, small)


def _parent(testbed: Testbed, script: str) -> str:
    """Run a script in a VM, snapshot its disk, and return the snapshot's name."""
    vm, snapshot = str(uuid4()), str(uuid4())
    testbed.provider.create(VmSpec(vm, testbed.image, network=False))
    with Connection(testbed.provider.connect(vm), SystemClock()) as connection:
        done = connection.run(in_job(script), timeout=_WRITE_TIMEOUT_SECONDS)
    if done.exit_code != 0:
        raise RuntimeError(f"{script}: {done.stderr.decode(errors='replace')}")
    testbed.provider.snapshot(vm, snapshot)
    testbed.provider.destroy(vm)
    return snapshot


def _fork(testbed: Testbed, parent: str, *, network: bool) -> float:
    vm = str(uuid4())
    started = perf_counter()
    testbed.provider.create(VmSpec(vm, testbed.image, snapshot=parent, network=network))
    took = first_command(testbed.provider.connect(vm), started, in_job("true"))
    testbed.provider.destroy(vm)
    return took


FORK = Benchmark(
    name="fork",
    title="A fork, from the wish for a VM on another's disk to the answer of its first command",
    baseline="a fork over 10 KB.",
    measure=_measure,
)
