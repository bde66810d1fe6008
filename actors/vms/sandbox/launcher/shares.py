"""A VM's share of what the kernel counts by user, so that no VM takes it from another or from the service.

All that happens in a user namespace also counts as whoever made the namespace, level by level up to the service. So a
VM has two: the outer one has the bounds, under which all ids of the VM are one, and the inner one has the VM. A share
is an equal part of what the service may have, of which the service keeps one part. It holds for processes, pending
signals and bytes of message queues (resource limits, as they are when the inner namespace is made), and for namespaces,
inotify and fanotify (``/proc/sys/user``).

Descriptors in flight, pages of pipes and epoll watches are counted by the host's own user id, in no namespace, so they
have no bound for one VM. The last id of the range is in no VM: slirp4netns has it, and so counts apart from all VMs, as
the service does; pasta would not keep it. VMs share these with each other; `ci-daemon doctor` says how far they go.
"""

from __future__ import annotations

import os
import resource
import sys

INNER_MAP = "0 0 65535"
"""The ids of the inner namespace, out of the outer one's."""

APART = 65_535
"""The id of the outer namespace that the inner one lacks."""

_PLENTY = {resource.RLIMIT_SIGPENDING: 1 << 16, resource.RLIMIT_MSGQUEUE: 819_200}
"""The most of a share: as much as a machine of its own has by default."""

_OBJECTS = "/proc/sys/user"
_PROCESS_IDS = "/proc/sys/kernel/pid_max"


def take_limits(vms: int, processes: int) -> dict[int, int]:
    """Return a VM's share of the limits of this process, one of ``vms``, and let all VMs together have all shares.

    ``processes`` is the most processes of a VM, and less where the host could not number so many for each.
    """
    with open(_PROCESS_IDS, "rb") as file:
        most = {**_PLENTY, resource.RLIMIT_NPROC: min(processes, _share(int(file.read()), vms))}
    return {which: min(plenty, _share(_raised(which), vms)) for which, plenty in most.items()}


def _raised(which: int) -> int:
    """Raise a limit of this process as far as it goes, which root may take further than its hard one; return it."""
    try:
        resource.setrlimit(which, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except (OSError, ValueError):
        hard = resource.getrlimit(which)[1]
        resource.setrlimit(which, (hard, hard))
        return hard
    return sys.maxsize


def take_objects(vms: int) -> dict[str, int]:
    """Return a VM's share of the kernel's objects of this user namespace, by their names in ``/proc/sys/user``."""
    shares = {}
    for name in os.listdir(_OBJECTS):
        if name.startswith("max_"):
            with open(f"{_OBJECTS}/{name}", "rb") as file:
                shares[name] = _share(int(file.read()), vms)
    return shares


def bound(limits: dict[int, int], objects: dict[str, int]) -> None:
    """Hold what this process, root of the outer namespace, makes from here on to its shares. Raises OSError."""
    for name, most in objects.items():
        with open(f"{_OBJECTS}/{name}", "wb", buffering=0) as file:
            file.write(b"%d" % most)
    for which, most in limits.items():
        resource.setrlimit(which, (most, most))


def _share(whole: int, vms: int) -> int:
    return whole // (vms + 1)
