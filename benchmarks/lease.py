"""The time from the creation of a VM to the result of its first command."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING
from uuid import uuid4

from actors.vms import VmSpec
from benchmarks.by_hand import ByHand
from benchmarks.figures import Benchmark, by_turns
from benchmarks.place import first_command

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.by_hand import Sandbox
    from benchmarks.figures import Figure
    from benchmarks.place import Place

__all__ = ["LEASE"]

_ROUNDS = 20


def _measure(place: Place) -> Iterator[Figure]:
    hand = ByHand(place)
    for network in (False, True):
        sides = partial(_cold, place, network=network), partial(_cold_by_hand, hand, network=network)
        yield by_turns(f"cold, {'with a' if network else 'without'} network", "ms", _ROUNDS, *sides)
    with hand.sandbox(network=False) as running:
        yield by_turns("warm", "ms", _ROUNDS, partial(_warm, place), partial(_warm_by_hand, hand, running))


def _cold(place: Place, *, network: bool) -> float:
    vm = str(uuid4())
    began = perf_counter()
    place.provider.create(VmSpec(vm, place.image, network=network))
    took = first_command(place.provider.connect(vm), began)
    place.provider.destroy(vm)
    return took


def _cold_by_hand(hand: ByHand, *, network: bool) -> float:
    began = perf_counter()
    with hand.sandbox(network=network) as sandbox:
        took = first_command(sandbox.endpoint, began)
    hand.remove(sandbox)
    return took


def _warm(place: Place) -> float:
    vm = str(uuid4())
    place.provider.create(VmSpec(vm, place.image))
    began = perf_counter()
    took = first_command(place.provider.connect(vm), began)
    place.provider.destroy(vm)
    return took


def _warm_by_hand(hand: ByHand, running: Sandbox) -> float:
    began = perf_counter()
    with hand.entered(running) as endpoint:
        return first_command(endpoint, began)


LEASE = Benchmark(
    name="lease",
    title="A lease, from the wish for a VM to the answer of its first command",
    floor=(
        "unshare, overlay mount, sshd and, with a network, the same program for it, by hand in a shell "
        "(benchmarks/by_hand.sh), with keys made beforehand and without limits and firewall; warm, one more sshd in a "
        "sandbox that runs already. The SSH client is the service's own on both sides. A cold lease is to cost at most "
        "1.5 times its floor."
    ),
    measure=_measure,
)
