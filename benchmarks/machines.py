"""Machines: their boot, the attach of a disk, a fork and a command, beside the same by a bare QEMU."""

from __future__ import annotations

from contextlib import closing, contextmanager
from functools import partial
from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING

from actors.vms import CommandSpec, Connection, ImageStore, QemuProvider, QemuSettings, SandboxSettings, VmSpec, start
from actors.vms.host import IdMap
from actors.vms.host.zygote import Zygote
from actors.vms.qemu.disks import ImageDisks
from actors.vms.qemu.program import Preparation
from benchmarks.baseline_machine import BaselineMachines
from benchmarks.figures import Benchmark, interleaved
from benchmarks.testbed import first_command
from storage import Shape, SystemClock
from tests.machines import share_image_disks, unpacked_kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from benchmarks.baseline_machine import BaselineMachine
    from benchmarks.figures import Figure
    from benchmarks.testbed import Testbed

_ROUNDS = 3
_COMMAND_ROUNDS = 20
_SECONDS = 300.0
_SHAPE = Shape(cpu=2, memory_gb=2, disk_gb=4)
_MOUNT = """\
until mount -t ext4 /dev/vdc /mnt; do :; done 2>/dev/null
chroot /mnt/root true"""
"""By hand the guest waits for its disk by looking for it again and again."""


def _measure(testbed: Testbed) -> Iterator[Figure]:
    with _provider(testbed) as provider:
        idmap, folder = IdMap.of_caller(), testbed.folder / "qemu"
        prepared = Preparation(folder / "boot", QemuSettings(system=unpacked_kernel()), idmap).done()
        with closing(Zygote()) as zygote:
            images = ImageStore(testbed.images_dir, idmap)
            image = ImageDisks(folder / "images", images, idmap, zygote).path(testbed.image)
        by_hand = BaselineMachines(testbed.folder / "by-hand", prepared.program, prepared.boot, image)
        names = map(str, count())
        yield interleaved(
            "boot, until its sshd answers", "ms", _ROUNDS, partial(_boot, provider, names), partial(_boot_bare, by_hand)
        )
        state = _saved(by_hand, testbed.folder / "state")
        attach = partial(_attach, provider, names, testbed.image)
        yield interleaved(
            "one that waits gets its job, or is restored", "ms", _ROUNDS, attach, partial(_restore, by_hand, state)
        )
        layer = by_hand.overlay("layer", image, "raw", _SHAPE.disk_gb)
        plugged = partial(_plug_bare, by_hand)
        yield interleaved("a disk is attached: an image's", "ms", _ROUNDS, attach, lambda: plugged([image]))
        parent = _parent(provider, testbed.image)
        yield interleaved(
            "a fork's",
            "ms",
            _ROUNDS,
            partial(_attach, provider, names, testbed.image, parent),
            lambda: plugged([layer, image]),
        )
        with by_hand.boot() as bare:
            yield _command(provider, testbed.image, bare)


@contextmanager
def _provider(testbed: Testbed) -> Iterator[QemuProvider]:
    folder, idmap, clock = testbed.folder / "qemu", IdMap.of_caller(), SystemClock()
    settings, shared = QemuSettings(system=unpacked_kernel()), SandboxSettings(create_seconds=_SECONDS)
    share_image_disks(folder)
    provider = QemuProvider(folder, ImageStore(testbed.images_dir, idmap), idmap, clock, settings, shared)
    try:
        yield provider
    finally:
        for vm in provider.list():
            provider.destroy(vm)
        provider.close()


def _boot(provider: QemuProvider, names: Iterator[str]) -> float:
    vm = next(names)
    provider.weigh(vm, 100)
    started = perf_counter()
    provider.park(vm)
    took = first_command(provider.connect(vm), started)
    provider.destroy(vm)
    return took


def _boot_bare(by_hand: BaselineMachines) -> float:
    started = perf_counter()
    with by_hand.boot() as machine:
        return first_command(machine.connect(), started)


def _saved(by_hand: BaselineMachines, state: Path) -> Path:
    """Save a guest that has served a first connection, and return the file."""
    with by_hand.boot() as machine:
        first_command(machine.connect(), perf_counter())
        machine.save(state)
    return state


def _restore(by_hand: BaselineMachines, state: Path) -> float:
    started = perf_counter()
    with by_hand.restore(state) as machine:
        return first_command(machine.connect(), started)


def _attach(provider: QemuProvider, names: Iterator[str], image: str, snapshot: str | None = None) -> float:
    """Attach a disk to a machine that waits; return the milliseconds to its first command's end."""
    vm = next(names)
    provider.weigh(vm, 100)
    provider.park(vm)
    with Connection(provider.connect(vm), SystemClock(), timeout=_SECONDS) as connection:
        started = perf_counter()
        provider.attach(VmSpec(vm, image, snapshot, _SHAPE, network=False))
        for _ in start(connection, CommandSpec("true")):
            pass
        took = (perf_counter() - started) * 1000
    provider.destroy(vm)
    return took


def _plug_bare(by_hand: BaselineMachines, below: list[Path]) -> float:
    """Plug a disk into a bare guest that waits; return the milliseconds to the answer of a command."""
    kind = "raw" if len(below) == 1 else "qcow2"
    with by_hand.boot() as machine, Connection(machine.connect(), SystemClock(), timeout=_SECONDS) as connection:
        started = perf_counter()
        own = by_hand.overlay("own", below[0], kind, _SHAPE.disk_gb)
        machine.plug(_SHAPE, [own, *below])
        done = connection.run(_MOUNT, timeout=_SECONDS)
        took = (perf_counter() - started) * 1000
    if done.exit_code != 0:
        raise RuntimeError(done.stderr.decode(errors="replace"))
    return took


def _parent(provider: QemuProvider, image: str) -> str:
    """Return a snapshot of a machine's disk."""
    provider.create(VmSpec("parent", image, None, _SHAPE, network=False))
    provider.snapshot("parent", "parent")
    provider.destroy("parent")
    return "parent"


def _command(provider: QemuProvider, image: str, bare: BaselineMachine) -> Figure:
    provider.create(VmSpec("commands", image, None, _SHAPE, network=False))
    clock = SystemClock()
    with (
        Connection(provider.connect("commands"), clock, timeout=_SECONDS) as ours,
        Connection(bare.connect(), clock, timeout=_SECONDS) as theirs,
    ):
        sides: list[Callable[[], float]] = [partial(_true, ours), partial(_true, theirs)]
        return interleaved("a command on an open connection", "ms", _COMMAND_ROUNDS, *sides)


def _true(connection: Connection) -> float:
    started = perf_counter()
    connection.run("true", timeout=_SECONDS)
    return (perf_counter() - started) * 1000


MACHINES = Benchmark(
    name="machines",
    title="Machines with a kernel of their own, up to the answer of the first command",
    baseline=(
        "a bare QEMU with the same accelerator, kernel, first root and base image (benchmarks/baseline_machine.py), "
        "without namespaces, firewall, limits and monitor. For a machine that waits it is one whose memory and devices "
        "were saved, restored. A disk is plugged in with the same shape, mounted, and `true` runs on it; ours is then "
        "started as a job's command is, by the supervisor."
    ),
    measure=_measure,
)
