"""Waits of the live service that tests shorten; its configuration does not contain them."""

from __future__ import annotations

from storage import immutable


@immutable
class Timings:
    """Waits in seconds.

    Attributes:
        retry: before a message is handled again after a transient error.
        vm_first: how long after its limit a VM may take to end a command, before this process ends it.
        report: how long after the grace a VM may take to report a killed command's end and the rest of its output.
        acquire: before each further try to make a job's VM.
        disk: before the host's disk is measured again while it is too full.
        parked: before another try to park a VM, after one that failed.
        first_parked: after the pool's start, in which first jobs begin, before it parks a VM.
        rendered: after a render, in which its first jobs begin, before a VM is made for the next render.
        housekeeping: before the first round of housekeeping.
    """

    retry: float = 1.0
    vm_first: float = 2.0
    report: float = 10.0
    acquire: tuple[float, ...] = (0.2, 1.0, 3.0, 10.0)
    disk: float = 5.0
    parked: float = 10.0
    first_parked: float = 0.0
    rendered: float = 0.3
    housekeeping: float = 0.0
