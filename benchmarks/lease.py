"""The time from the wish for a VM to the result of its first command."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING
from uuid import uuid4

from actors import PoolSettings
from actors.vms import CommandSpec, Connection, VmSpec, in_job, start
from benchmarks.baseline_vm import BaselineVms
from benchmarks.figures import Benchmark, Figure, interleaved
from benchmarks.testbed import first_command
from storage import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from benchmarks.baseline_vm import BaselineVm
    from benchmarks.testbed import Testbed

_ROUNDS = 20
_PARKED = PoolSettings().parked
_SETTLED_SECONDS = 1.0
"""The time in which the processes end that only making a VM and its connection needs."""


def _measure(testbed: Testbed) -> Iterator[Figure]:
    vms = BaselineVms(testbed)
    for network in (False, True):
        sides = partial(_cold, testbed, network=network), partial(_cold_baseline, vms, network=network)
        yield interleaved(f"made for it, {'with a' if network else 'without'} network", "ms", _ROUNDS, *sides)
    parent = _parent(testbed)
    with vms.start(network=False) as running:
        running.wait()
        for label, snapshot in (("an image", None), ("a parent's disk", parent)):
            sides = partial(_parked, testbed, snapshot), partial(_another_sshd, vms, running)
            yield interleaved(f"parked, on {label}", "ms", _ROUNDS, *sides)
        yield Figure("memory of a parked VM", "MB", _memory_of_parked(testbed), _memory(_tree(running.process.pid)))


def _cold(testbed: Testbed, *, network: bool) -> float:
    vm = str(uuid4())
    started = perf_counter()
    testbed.provider.create(VmSpec(vm, testbed.image, network=network))
    took = first_command(testbed.provider.connect(vm), started, in_job("true"))
    testbed.provider.destroy(vm)
    return took


def _cold_baseline(vms: BaselineVms, *, network: bool) -> float:
    started = perf_counter()
    with vms.start(network=network) as vm:
        took = first_command(vm.endpoint, started)
    vms.remove(vm)
    return took


def _parent(testbed: Testbed) -> str:
    """Return a snapshot of a VM's disk."""
    vm = str(uuid4())
    testbed.provider.create(VmSpec(vm, testbed.image))
    testbed.provider.snapshot(vm, vm)
    testbed.provider.destroy(vm)
    return vm


def _parked(testbed: Testbed, snapshot: str | None) -> float:
    vm = str(uuid4())
    testbed.provider.park(vm)
    with Connection(testbed.provider.connect(vm), SystemClock()) as connection:
        started = perf_counter()
        testbed.provider.attach(VmSpec(vm, testbed.image, snapshot))
        for _ in start(connection, CommandSpec("true")):
            pass
        took = (perf_counter() - started) * 1000
    testbed.provider.destroy(vm)
    return took


def _another_sshd(vms: BaselineVms, running: BaselineVm) -> float:
    started = perf_counter()
    with vms.another_sshd(running) as endpoint:
        return first_command(endpoint, started)


def _memory_of_parked(testbed: Testbed) -> float:
    """Return the memory of one of several parked VMs with an open connection."""
    names = [str(uuid4()) for _ in range(_PARKED)]
    for name in names:
        testbed.provider.park(name)
    connections = [Connection(testbed.provider.connect(name), SystemClock()) for name in names]
    time.sleep(_SETTLED_SECONDS)
    took = sum(_memory(_tree(testbed.provider.monitor(name))) for name in names) / _PARKED
    for connection, name in zip(connections, names, strict=True):
        connection.close()
        testbed.provider.destroy(name)
    return took


def _tree(process: int) -> Iterator[int]:
    """Yield a process and its descendants."""
    yield process
    for task in Path(f"/proc/{process}/task").iterdir():
        for child in (task / "children").read_text(encoding="ascii").split():
            yield from _tree(int(child))


def _memory(processes: Iterable[int]) -> float:
    """Return the proportional set size of processes, in MB."""
    total = 0
    for process in processes:
        for line in Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total * 1024 / 1e6


LEASE = Benchmark(
    name="lease",
    title="A lease, from the wish for a VM to the answer of its first command",
    baseline=(
        "unshare, overlay mount, sshd and, with a network, the same program for it, in a shell script "
        "(benchmarks/baseline_vm.sh), with keys made beforehand and without limits and firewall; for parked VMs, one "
        "more sshd in a sandbox that runs already. The SSH client is the service's own on both sides. Memory is the "
        "proportional set size; that of the baseline is of a sandbox of the script."
    ),
    measure=_measure,
)
