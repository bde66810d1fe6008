"""The launcher's programs in instances: they bring keys and jobs to init, and connections to sshd."""

from __future__ import annotations

import marshal
import resource
from typing import TYPE_CHECKING, Any

from actors.vms.incus.tarballs import PROGRAMS
from actors.vms.launcher.words import DISK
from actors.vms.provider import VmError

if TYPE_CHECKING:
    from actors.vms.host.vm_folder import KeyPair
    from actors.vms.incus.exec_streams import ExecStreams, Program
    from actors.vms.provider import VmSpec

_GB = 1 << 30
_OPEN_FILES = 65_536
_LIMITS = {resource.RLIMIT_SIGPENDING: 4096, resource.RLIMIT_MSGQUEUE: 100_000}
_OBJECTS = {"max_inotify_instances": 32}
"""A VM's limits on what the kernel counts for all instances of a member together.

The kernel's defaults suffice for a few VMs.
"""
_TERMINALS = 64
"""The most terminals of a VM: when none is left, its member starts no other instance."""

_RUN = f'import sys; sys.path[:0] = ["{PROGRAMS}"]; from launcher.container_requests import main; main(sys.argv[1])'
_READY = b"ready"


def keys_of(
    host: KeyPair, caller: KeyPair, processes: int, network: dict[str, Any], *, user_namespaces: bool
) -> dict[str, Any]:
    """Return what init needs to make the VM."""
    return {
        "host_key": host.private,
        "authorized_key": caller.public,
        "limits": {**_LIMITS, resource.RLIMIT_NPROC: processes},
        "objects": _OBJECTS,
        "terminals": _TERMINALS,
        "network": network,
        "user_namespaces": user_namespaces,
    }


def job_of(spec: VmSpec, resolver: str, share: str | None) -> dict[str, Any]:
    """Return what a job brings to its VM; ``share`` names the file system that is its disk, in a machine."""
    largest_file = spec.shape.disk_gb * _GB
    limits = {resource.RLIMIT_NOFILE: _OPEN_FILES, resource.RLIMIT_FSIZE: largest_file, resource.RLIMIT_CORE: 1}
    return {
        "limits": [(kind, most, most) for kind, most in limits.items()],
        "memory_bytes": spec.shape.memory_gb * _GB,
        "network": spec.network,
        "resolver": resolver if spec.network else None,
        "share": share,
    }


def boot(streams: ExecStreams, instance: str, keys: dict[str, Any], seconds: float) -> None:
    """Bring the keys to an instance's init, and return when it has made the VM. Raises VmError."""
    _tell(streams, instance, "boot", keys, seconds)


def attach(streams: ExecStreams, instance: str, job: dict[str, Any], seconds: float) -> None:
    """Bring the job to a VM that has got its disk from the engine; return when it uses it. Raises VmError."""
    _tell(streams, instance, "attach", job, seconds)


def connect(streams: ExecStreams, instance: str) -> Program:
    """Connect to the VM's sshd. Raises NotFound, EngineError and EngineAway."""
    return streams.start(instance, argv("connect"))


def write_out(streams: ExecStreams, instance: str, seconds: float) -> None:
    """Let a VM's member write what is in memory of the disk, so that it is counted. Raises VmError."""
    streams.complete(instance, ["/bin/sync", "-f", DISK], b"", seconds)


def end(streams: ExecStreams, instance: str, seconds: float) -> None:
    """Let an instance's init end. Raises VmError."""
    streams.complete(instance, argv("end"), b"", seconds)


def _tell(streams: ExecStreams, instance: str, program: str, content: dict[str, Any], seconds: float) -> None:
    with streams.start(instance, argv(program)) as started:
        done = started.complete(marshal.dumps(content), seconds)
        word, _, why = done.output.strip().partition(b" ")
        if word != _READY:
            reason = (why or done.errors).decode(errors="replace").strip() or started.end_reason()
            message = f"{instance} does not {program}: {reason}"
            raise VmError(message)


def argv(program: str) -> list[str]:
    """Return the command of a program."""
    return ["/usr/bin/python3", "-I", "-S", "-B", "-c", _RUN, program]
