"""The parts of a machine that its job brings, plugged in while it runs: its shape and its disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.vms.provider import VmError
from actors.vms.qemu.command_line import DISK_PORT, MOST_CPUS, MOST_MEMORY_GB, PARKED, file_node

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from actors.vms.qemu.qmp import Qmp
    from storage import Shape

_FIRST_SET = 1000
"""The first of QEMU's sets of descriptors that have the layers of the job's disk."""

_BELOW = f"layer{_FIRST_SET + 1}"
"""The node of the newest layer below the job's own."""

_FIRST_MODULE_GB = 8


def plug_shape(qmp: Qmp, shape: Shape) -> None:
    """Give a parked machine its memory and processors.

    Raises VmError, also if no machine can have this shape.
    """
    _check(shape)
    for number, gigabytes in enumerate(memory_modules(shape.memory_gb)):
        backend = {"qom-type": "memory-backend-ram", "id": f"ram{number}", "size": gigabytes << 30}
        qmp.execute("object-add", backend)
        qmp.execute("device_add", {"driver": "pc-dimm", "id": f"module{number}", "memdev": f"ram{number}"})
    free = [slot for slot in qmp.execute("query-hotpluggable-cpus") if "qom-path" not in slot]
    for slot in sorted(free, key=lambda slot: slot["props"]["core-id"])[: shape.cpu - PARKED.cpu]:
        qmp.execute("device_add", {"driver": slot["type"], **slot["props"]})


def plug_disk(qmp: Qmp, layers: Sequence[Path]) -> None:
    """Give a parked machine its disk, whose own layer is the first and whose image the last.

    Raises VmError.
    """
    for number, layer in enumerate(layers, _FIRST_SET):
        with layer.open("r+b" if number == _FIRST_SET else "rb") as file:
            qmp.execute("add-fd", {"fdset-id": number}, descriptor=file.fileno())
    qmp.execute("blockdev-add", job_drive(len(layers)))
    qmp.execute("device_add", {"driver": "virtio-blk-pci", "id": "disk", "drive": "job", "bus": DISK_PORT})


def flatten(qmp: Qmp) -> None:
    """Begin to copy into the job's own layer all that lies between it and the image.

    Raises VmError.
    """
    qmp.execute("block-stream", {"job-id": "flatten", "device": "job", "base-node": "image"})


def await_flat(qmp: Qmp) -> None:
    """Wait until the job's own layer lies on the image. Raises VmError if it never will."""
    while qmp.execute("query-block-jobs"):
        qmp.await_event("BLOCK_JOB_COMPLETED")
    if any(node["node-name"] == _BELOW for node in qmp.execute("query-named-block-nodes", {"flat": True})):
        message = "the layers of the disk could not be merged"
        raise VmError(message)


def memory_modules(memory_gb: int) -> Iterator[int]:
    """Yield the sizes of the modules that bring a parked machine to this memory.

    A guest notes each page of a module in the memory that it has by then, so the first one is small.
    """
    missing = memory_gb - PARKED.memory_gb
    first = min(missing, _FIRST_MODULE_GB)
    yield from filter(None, (first, missing - first))


def job_drive(layers: int, number: int = _FIRST_SET) -> dict[str, Any]:
    """Return the drive of a disk of so many layers.

    The first alone is written to, and the last one is raw.
    """
    writable = number == _FIRST_SET
    file = file_node(number, writable=writable)
    if layers == 1:
        return {"node-name": "image", "driver": "raw", "read-only": not writable, "file": file}
    name, below = "job" if writable else f"layer{number}", job_drive(layers - 1, number + 1)
    return {"node-name": name, "driver": "qcow2", "read-only": not writable, "file": file, "backing": below}


def _check(shape: Shape) -> None:
    if shape.cpu > MOST_CPUS or shape.memory_gb > MOST_MEMORY_GB:
        message = (
            f"no machine can have {shape.cpu} CPUs and {shape.memory_gb} GB of memory: "
            f"ask for at most {MOST_CPUS} and {MOST_MEMORY_GB}"
        )
        raise VmError(message)
