"""A VM's share of the resources that the kernel counts by user, so that no VM starves another.

Whatever happens in a user namespace also counts for the user that made the namespace, level by level up to the service.
So a VM has two: the outer one has the bounds and counts all ids of the VM as one, and the inner one has the VM. A share
is an equal part of the resources of the service, which keeps one part for itself. There are shares of processes,
pending signals and bytes of message queues (resource limits, as set when the inner namespace is made), and of
namespaces, inotify and fanotify (``/proc/sys/user``).

Terminals are counted for all users together, so the share is what the VM's file system of terminals gives; a job that
mounts another one has more.

Descriptors in flight, pages of pipes and epoll watches are counted by the user id on the host, without regard to
namespaces, so one VM has no bound for them: all VMs share them, and `ci-daemon doctor` says how far they go. The last
id of the range is in no VM. slirp4netns has it, so it is counted apart from all VMs, as the service is; pasta would not
keep it.
"""

from __future__ import annotations

import os
import resource
import sys

INNER_MAP = "0 0 65535"
"""The ids of the inner namespace, among the outer one's."""

NETWORK_PROGRAM_ID = 65_535
"""The id of the outer namespace that the inner one lacks."""

_MAX_SHARE = {resource.RLIMIT_SIGPENDING: 1 << 16, resource.RLIMIT_MSGQUEUE: 819_200}
"""The most of a share: the default of a separate machine."""

_SERVICE_PROCESSES = 64
_OBJECTS = "/proc/sys/user"
_PROCESS_IDS = "/proc/sys/kernel/pid_max"
_TERMINALS = "/proc/sys/kernel/pty"
_FEWEST_TERMINALS = 32
"""Enough to test programs for terminals. Few jobs do, so VMs may have more together than there are."""


def take_limits(vms: int, processes: int) -> dict[int, int]:
    """Return the share of one of ``vms`` VMs in this process's limits, which are raised to their maximum.

    ``processes`` is the most processes of a VM; the share is less if the host has too few process ids.
    """
    with open(_PROCESS_IDS, "rb") as file:
        most = {**_MAX_SHARE, resource.RLIMIT_NPROC: min(processes, _share(int(file.read()), vms))}
    return {kind: min(highest, _share(_raised(kind), vms)) for kind, highest in most.items()}


def of_job(processes: int) -> int:
    """Return the most processes of a job in a VM that may have ``processes``.

    The service's own part keeps the rest.
    """
    return processes - min(_SERVICE_PROCESSES, processes // 4)


def limit_of_job() -> int:
    """Return the most processes of a job in the VM that this process is in."""
    return of_job(resource.getrlimit(resource.RLIMIT_NPROC)[1] % (1 << 63))


def _raised(kind: int) -> int:
    """Raise a limit of this process as far as possible and return it; root may exceed the hard limit."""
    try:
        resource.setrlimit(kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except (OSError, ValueError):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (hard, hard))
        return hard
    return sys.maxsize


def take_objects(vms: int) -> dict[str, int]:
    """Return a VM's share of this user namespace's objects, by their names in ``/proc/sys/user``."""
    shares = {}
    for name in os.listdir(_OBJECTS):
        if name.startswith("max_"):
            with open(f"{_OBJECTS}/{name}", "rb") as file:
                shares[name] = _share(int(file.read()), vms)
    return shares


def take_terminals(vms: int) -> int:
    """Return a VM's share of the terminals that are not the host's own."""
    whole = []
    for name in ("max", "reserve"):
        with open(f"{_TERMINALS}/{name}", "rb") as file:
            whole.append(int(file.read()))
    return max(_FEWEST_TERMINALS, _share(whole[0] - whole[1], vms))


def bound_shares(limits: dict[int, int], objects: dict[str, int]) -> None:
    """Limit this process, root of the outer namespace, and its children to the shares. Raises OSError."""
    for name, most in objects.items():
        with open(f"{_OBJECTS}/{name}", "wb", buffering=0) as file:
            file.write(b"%d" % most)
    for kind, most in limits.items():
        resource.setrlimit(kind, (most, most))


def _share(whole: int, vms: int) -> int:
    return whole // (vms + 1)
