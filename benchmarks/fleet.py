"""VMs on a cluster of three real members, beside the engine's own client doing the same on a member."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING

from actors.vms import Connection, ImageStore, VmError, VmSpec, in_job
from actors.vms.host import IdMap
from benchmarks.direct_ssh import DirectSsh
from benchmarks.figures import Benchmark, interleaved
from benchmarks.logs import ThroughputMeter
from benchmarks.testbed import first_command
from storage import Shape, SystemClock
from tests.fleet.engine import INCUS
from tests.fleet.fleet import POOL, Fleet
from tests.fleet.prepared_cluster import prepare, provider_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from actors.vms.incus import IncusProvider
    from benchmarks.figures import Figure
    from benchmarks.testbed import Testbed
    from tests.fleet.member import Member

_ROUNDS = 3
_COMMAND_ROUNDS = 20
_LOG_ROUNDS = 3
_LOG_MB = 100
_OUTPUT_BYTES = 400_000_000
_OUTPUT = in_job(f"head -c {_OUTPUT_BYTES} /dev/zero")
_FILL = "dd if=/dev/urandom bs=1M count=100"
_SECONDS = 120.0
_SHAPE = Shape(cpu=1, memory_gb=1, disk_gb=4)


def _measure(testbed: Testbed) -> Iterator[Figure]:
    if os.geteuid() != 0:
        raise VmError("the members of a fleet are machines in namespaces: run it as root.")
    with ExitStack() as stack:
        fleet = stack.enter_context(Fleet(INCUS, 3))
        stack.enter_context(fleet.switch.entered())
        prepare(fleet, testbed.folder / "state")
        images = ImageStore(testbed.images_dir, IdMap.of_caller())
        provider = stack.enter_context(provider_of(testbed.folder / "state", images))
        parent, home = _parent(provider, testbed.image)
        ours = _Ours(provider, testbed.image, testbed.folder)
        member = next(each for each in fleet.members if each.name == home)
        by_hand = _ByHand(member, fleet.first(but=member))
        yield from _figures(ours, by_hand, parent, fleet)
        member.run(f"incus cluster set {member.name} scheduler.instance=manual")
        there = partial(ours.create, parent), partial(by_hand.fork_there, by_hand.whole())
        for make in there:
            make()  # the other member takes the images first
        yield interleaved("fork on another member, 400 MB", "ms", _ROUNDS, *there)


def _figures(ours: _Ours, by_hand: _ByHand, parent: str, fleet: Fleet) -> Iterator[Figure]:
    copy = f"ci-snapshot-{parent}"
    create = partial(ours.create, None), by_hand.create
    yield interleaved("create, until a first command has run", "ms", _ROUNDS, *create)
    fork = partial(ours.create, parent), partial(by_hand.fork, copy)
    yield interleaved("fork on the parent's member", "ms", _ROUNDS, *fork)
    attach = partial(ours.attach, parent), partial(by_hand.attach, copy)
    yield interleaved("attach a fork's disk to one that waits", "ms", _ROUNDS, *attach)
    yield interleaved("delete one that runs, with its disk", "ms", _ROUNDS, ours.delete, partial(by_hand.delete, copy))
    with ours.vm() as vm_id, ours.connected(vm_id) as connection, by_hand.instance() as name:
        command = partial(_command, connection, "true"), partial(by_hand.run, name, "true")
        yield interleaved("a command", "ms", _COMMAND_ROUNDS, *command)
        log = f"head -c {_LOG_MB}M /dev/zero"
        speed = partial(_speed, lambda: _command(connection, log))
        yield interleaved(
            "output of a command", "MB/s", _LOG_ROUNDS, speed, partial(_speed, lambda: by_hand.run(name, log))
        )
        output, direct = partial(_throughput, connection), ours.direct(vm_id, fleet)
        plain = output, lambda: _rate(direct.ssh(_OUTPUT, ours.folder))
        yield interleaved("output, beside `ssh` to its sshd directly", "MB/s", _LOG_ROUNDS, *plain)
        with direct.connected() as without_engine:
            sides = output, partial(_throughput, without_engine)
            yield interleaved("output, beside our SSH to its sshd directly", "MB/s", _LOG_ROUNDS, *sides)


class _Ours:
    """VMs of the provider."""

    def __init__(self, provider: IncusProvider, image: str, folder: Path) -> None:
        self.folder = folder
        self._provider = provider
        self._image = image
        self._names = map("ours-{}".format, count())

    def create(self, parent: str | None) -> float:
        spec, began = self._spec(parent), perf_counter()
        self._provider.create(spec)
        took = first_command(self._provider.connect(spec.id), began)
        self._provider.destroy(spec.id)
        return took

    def attach(self, parent: str) -> float:
        spec = self._spec(parent)
        home = self._provider.member(self._made(parent))
        self._provider.park(spec.id)
        while self._provider.member(spec.id) != home:  # the next one goes to another member
            spec = self._spec(parent)
            self._provider.park(spec.id)
        with Connection(self._provider.connect(spec.id), SystemClock()) as connection:
            began = perf_counter()
            self._provider.attach(spec)
            took = _command(connection, "true", began)
        self.end()
        return took

    def delete(self) -> float:
        vm_id, began = self._made(None), perf_counter()
        self._provider.destroy(vm_id)
        return (perf_counter() - began) * 1000

    @contextmanager
    def vm(self) -> Iterator[str]:
        yield self._made(None)
        self.end()

    @contextmanager
    def connected(self, vm_id: str) -> Iterator[Connection]:
        with Connection(self._provider.connect(vm_id), SystemClock()) as connection:
            yield connection

    def direct(self, vm_id: str, fleet: Fleet) -> DirectSsh:
        endpoint, home = self._provider.connect(vm_id), self._provider.member(vm_id)
        endpoint.socket.close()
        return DirectSsh(vm_id, next(member for member in fleet.members if member.name == home), endpoint)

    def end(self) -> None:
        for vm_id in self._provider.list():
            self._provider.destroy(vm_id)

    def _made(self, parent: str | None) -> str:
        spec = self._spec(parent)
        self._provider.create(spec)
        return spec.id

    def _spec(self, parent: str | None) -> VmSpec:
        return VmSpec(next(self._names), self._image, parent, _SHAPE)


class _ByHand:
    """Instances of the outer layer's image, made by the engine's client on a member."""

    def __init__(self, member: Member, other: Member) -> None:
        self._member = member
        self._other = other
        self._names = map("by-hand-{}".format, count())
        aliases = member.run("incus image alias list --project ci --format csv").splitlines()
        self._image = next(line.split(",")[0] for line in aliases if line.startswith("ci-base-"))

    def create(self) -> float:
        return self._timed(self._launch)

    def fork(self, volume: str) -> float:
        return self._timed(lambda name: f"{self._launch(name)} && {_plug(name, volume)}")

    def whole(self) -> str:
        """Make an instance with as much to copy as the parent's disk has; return its name."""
        name = next(self._names)
        self._member.run(
            f"{self._launch(name)} && incus exec --project ci {name} -- {_FILL} of=/file", seconds=_SECONDS
        )
        self._member.run(f"incus stop --force --project ci {name}")
        return name

    def fork_there(self, parent: str) -> float:
        """Copy an instance: between members, the client copies no volume that has a size."""
        copied = f"incus copy --quiet --project ci --instance-only {parent} {{0}} --target {self._other.name}"
        return self._timed(lambda name: f"{copied.format(name)} && incus start --project ci {name}")

    def attach(self, volume: str) -> float:
        with self.instance() as name:
            began = perf_counter()
            self._member.run(f"{_plug(name, volume)} && incus exec --project ci {name} -- true")
            took = (perf_counter() - began) * 1000
        self._member.run(f"incus storage volume delete --project ci {POOL} {name}")
        return took

    def delete(self, volume: str) -> float:
        name = next(self._names)
        self._member.run(f"{self._launch(name)} && {_plug(name, volume)}")
        began = perf_counter()
        self._member.run(f"{_end(name)} && incus storage volume delete --project ci {POOL} {name}")
        return (perf_counter() - began) * 1000

    @contextmanager
    def instance(self) -> Iterator[str]:
        name = next(self._names)
        self._member.run(self._launch(name))
        yield name
        self._member.run(_end(name))

    def run(self, name: str, command: str) -> float:
        began = perf_counter()
        self._member.run(f"incus exec --project ci {name} -- {command} >/dev/null", seconds=_SECONDS)
        return (perf_counter() - began) * 1000

    def _launch(self, name: str) -> str:
        return (
            f"incus launch --quiet --project ci --profile ci --target {self._member.name} {self._image} {name}"
            " -c security.nesting=true -c security.idmap.isolated=true"
        )

    def _timed(self, commands: Callable[[str], str]) -> float:
        name, began = next(self._names), perf_counter()
        self._member.run(f"{commands(name)} && incus exec --project ci {name} -- true")
        took = (perf_counter() - began) * 1000
        self._member.run(f"{_end(name)}; incus storage volume delete --project ci {POOL} {name} || true")
        return took


def _plug(name: str, volume: str) -> str:
    copied = f"incus storage volume copy --quiet --project ci {POOL}/{volume} {POOL}/{name}"
    return f"{copied} && incus config device add --project ci {name} disk disk pool={POOL} source={name} path=/mnt"


def _end(name: str) -> str:
    return f"incus delete --force --project ci {name}"


def _parent(provider: IncusProvider, image: str) -> tuple[str, str | None]:
    """Make a disk to fork; return its name and its member."""
    spec = VmSpec("parent", image, None, _SHAPE)
    provider.create(spec)
    home = provider.member(spec.id)
    with Connection(provider.connect(spec.id), SystemClock()) as connection:
        _command(connection, f"{_FILL} of=/workspace/file")
    provider.snapshot(spec.id, "parent")
    provider.destroy(spec.id)
    return "parent", home


def _command(connection: Connection, script: str, began: float | None = None) -> float:
    began = perf_counter() if began is None else began
    with connection.stream(in_job(f"{script} 2>/dev/null"), timeout=_SECONDS) as output:
        for _ in output:
            pass
    return (perf_counter() - began) * 1000


def _throughput(connection: Connection) -> float:
    """Return the MB/s of a command's output on a connection."""
    with connection.stream(_OUTPUT, timeout=_SECONDS) as output:
        return _rate(output)


def _rate(chunks: Iterable[bytes]) -> float:
    meter = ThroughputMeter(_OUTPUT_BYTES)
    for chunk in chunks:
        meter.add(len(chunk))
    return meter.rate


def _speed(run: Callable[[], float]) -> float:
    return _LOG_MB * 1000 / run()


FLEET = Benchmark(
    "fleet",
    "How fast are VMs on three members of an Incus cluster, from a service elsewhere?",
    "the engine's own client on the member, by its socket: instances of the same image, copies of the same volume",
    _measure,
)
