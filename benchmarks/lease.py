"""The time from the creation of a VM to the result of its first command."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING
from uuid import uuid4

from actors.vms import VmSpec
from benchmarks.baseline_vm import BaselineVms
from benchmarks.figures import Benchmark, interleaved
from benchmarks.testbed import first_command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.baseline_vm import BaselineVm
    from benchmarks.figures import Figure
    from benchmarks.testbed import Testbed

__all__ = ["LEASE"]

_ROUNDS = 20


def _measure(testbed: Testbed) -> Iterator[Figure]:
    vms = BaselineVms(testbed)
    for network in (False, True):
        sides = partial(_cold, testbed, network=network), partial(_cold_baseline, vms, network=network)
        yield interleaved(f"cold, {'with a' if network else 'without'} network", "ms", _ROUNDS, *sides)
    with vms.start(network=False) as running:
        yield interleaved("warm", "ms", _ROUNDS, partial(_warm, testbed), partial(_warm_baseline, vms, running))


def _cold(testbed: Testbed, *, network: bool) -> float:
    vm = str(uuid4())
    started = perf_counter()
    testbed.provider.create(VmSpec(vm, testbed.image, network=network))
    took = first_command(testbed.provider.connect(vm), started)
    testbed.provider.destroy(vm)
    return took


def _cold_baseline(vms: BaselineVms, *, network: bool) -> float:
    started = perf_counter()
    with vms.start(network=network) as vm:
        took = first_command(vm.endpoint, started)
    vms.remove(vm)
    return took


def _warm(testbed: Testbed) -> float:
    vm = str(uuid4())
    testbed.provider.create(VmSpec(vm, testbed.image))
    started = perf_counter()
    took = first_command(testbed.provider.connect(vm), started)
    testbed.provider.destroy(vm)
    return took


def _warm_baseline(vms: BaselineVms, running: BaselineVm) -> float:
    started = perf_counter()
    with vms.another_sshd(running) as endpoint:
        return first_command(endpoint, started)


LEASE = Benchmark(
    name="lease",
    title="A lease, from the request for a VM to the answer of its first command",
    baseline=(
        "unshare, overlay mount, sshd and, with a network, the same program for it, in a shell script "
        "(benchmarks/baseline_vm.sh), with keys made beforehand and without limits and firewall; warm, one more sshd "
        "in a sandbox that runs already. The SSH client is the service's own on both sides. A cold lease is to cost "
        "at most 1.5 times its baseline."
    ),
    measure=_measure,
)
