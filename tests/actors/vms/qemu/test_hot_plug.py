"""The parts that a job brings to its machine: memory, processors and a disk."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from actors.vms import VmError
from actors.vms.qemu.machine import Qmp, job_drive, memory_modules, plug_disk, plug_shape
from storage import Shape

SLOTS = [{"type": "cpu", "props": {"core-id": number}} for number in (3, 1, 2)]
SLOTS.append({"type": "cpu", "props": {"core-id": 0}, "qom-path": "taken"})

Answer = Callable[[dict[str, Any]], object]


class Machine:
    """The other end of the protocol: it keeps the commands and the names of the files that it is given."""

    def __init__(self, answer: Answer) -> None:
        self.ours, self._theirs = socket.socketpair()
        self.commands: list[dict[str, Any]] = []
        self.given: list[tuple[str, int]] = []
        self._answer = answer
        self.thread = threading.Thread(target=self._serve)
        self.thread.start()

    def _serve(self) -> None:
        with self._theirs, suppress(OSError):
            self._theirs.sendall(b'{"QMP": {}}\n{"event": "RESUME"}\n')
            while True:
                request, files, _, _ = socket.recv_fds(self._theirs, 1 << 16, 4)
                for file in files:
                    self.given.append((Path(f"/proc/self/fd/{file}").readlink().name, _access(file)))
                    os.close(file)
                if not request:
                    return
                self.commands.append(json.loads(request))
                self._theirs.sendall(json.dumps(self._answer(self.commands[-1])).encode() + b"\n")


Make = Callable[[Answer], Machine]


def _access(file: int) -> int:
    (flags,) = [line for line in Path(f"/proc/self/fdinfo/{file}").read_text().splitlines() if "flags" in line]
    return int(flags.split()[1], 8) & os.O_ACCMODE


@pytest.fixture
def machine() -> Iterator[Make]:
    with ExitStack() as made:

        def make(answer: Answer) -> Machine:
            new = Machine(answer)
            made.callback(new.thread.join)
            made.callback(new.ours.close)
            return new

        yield make


def well(command: dict[str, Any]) -> object:
    return {"return": SLOTS if command["execute"] == "query-hotpluggable-cpus" else {}}


def test_a_job_brings_memory_processors_and_its_disk(machine: Make, tmp_path: Path):
    layers = [tmp_path / name for name in ("own", "parent", "image")]
    for layer in layers:
        layer.touch()
    qemu = machine(well)
    with Qmp(qemu.ours, 60) as qmp:
        plug_shape(qmp, Shape(cpu=3, memory_gb=12))
        plug_disk(qmp, layers)
    done = [(each["execute"], each["arguments"]) for each in qemu.commands]
    assert [each["size"] >> 30 for name, each in done if name == "object-add"] == [8, 3]
    plugged = [each for name, each in done if name == "device_add"]
    assert [each["core-id"] for each in plugged if each["driver"] == "cpu"] == [1, 2]
    assert plugged[-1]["drive"] == "job"
    assert qemu.given == [("own", os.O_RDWR), ("parent", os.O_RDONLY), ("image", os.O_RDONLY)]


def test_only_the_jobs_own_layer_is_written_to():
    own = job_drive(3)
    parent, image = own["backing"], own["backing"]["backing"]
    assert [each["read-only"] for each in (own, parent, image)] == [False, True, True]
    assert [each["driver"] for each in (own, parent, image)] == ["qcow2", "qcow2", "raw"]
    assert len({each["file"]["filename"] for each in (own, parent, image)}) == 3


@pytest.mark.parametrize(("memory_gb", "modules"), [(1, []), (2, [1]), (9, [8]), (10, [8, 1]), (256, [8, 247])])
def test_memory_comes_in_at_most_two_modules(memory_gb: int, modules: list[int]):
    assert list(memory_modules(memory_gb)) == modules


@pytest.mark.parametrize("shape", [Shape(cpu=65), Shape(memory_gb=257)])
def test_a_shape_past_all_bounds_is_refused_with_the_bounds(machine: Make, shape: Shape):
    with Qmp(machine(well).ours, 60) as qmp, pytest.raises(VmError, match="at most 64 and 256"):
        plug_shape(qmp, shape)


@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"class": "GenericError", "desc": "no room"}},
        {"error": "no room"},
        [[]],
        "x" * (2 << 20),
    ],
)
def test_whatever_qemu_answers_ends_in_an_error(machine: Make, answer: object):
    """Its guest may have taken it over."""
    qemu = machine(lambda command: well(command) if command["execute"] == "qmp_capabilities" else answer)
    with Qmp(qemu.ours, 5) as qmp, pytest.raises(VmError, match=r"QEMU (refuses|does not answer) stop"):
        qmp.execute("stop")
