"""The queue of the host, and its drain, for its owner (engine.md, "Leases", "Drain")."""

from __future__ import annotations

from typing import Annotated

from actors.scheduling import WaitingWork, waiting_work
from api.operations.operation import DELETE, GET, POST, Call, owners_operation
from storage import hidden, immutable

_DRAIN = "/drain"


@immutable
class QueuePart:
    """The body of `list_queue`: at most ``limit`` rows past the first ``start``."""

    limit: int
    start: int = 0


@owners_operation("listQueue", GET, "/queue")
def list_queue(call: Call, body: QueuePart) -> Annotated[list[WaitingWork], "Jobs in line, other jobs, then builds."]:
    """List jobs that wait, in line, then for an image, a lock or an approval, or backing off; then builds."""
    box, part = call.box, range(body.start, body.start + body.limit)
    return waiting_work(call.storage, box.pool, box.capacity, call.clock, part, running=box.serves())


@immutable
class Drain:
    """The drain of a host, and the jobs and renders that have a VM; VMs on hold do not count.

    ``changed`` is False if the host was drained before. If nothing ``serves``, these VMs stay until the service runs.
    """

    drained: bool
    changed: bool
    jobs_running: int
    renders_running: int
    serves: bool = hidden()


@immutable
class Resumed:
    """The end of a drain; ``changed`` is False if the host was not drained."""

    drained: bool
    changed: bool


@owners_operation("getDrain", GET, _DRAIN)
def get_drain(call: Call) -> Drain:
    """Tell whether the host is drained, and what still has a VM."""
    return _drain(call, changed=False)


@owners_operation("drain", POST, _DRAIN)
def drain(call: Call) -> Drain:
    """Give no more VMs to jobs until `resume`, also after a restart."""
    return _drain(call, changed=call.storage.switches.drain())


@owners_operation("resume", DELETE, _DRAIN)
def resume(call: Call) -> Resumed:
    """Give VMs to jobs again."""
    return Resumed(drained=False, changed=call.storage.switches.resume())


def _drain(call: Call, *, changed: bool) -> Drain:
    storage = call.storage
    held = {hold.lease_id for hold in storage.holds.open()}
    leases = [lease for lease in storage.leases.live() if lease.id not in held]
    return Drain(
        drained=storage.switches.drained_since() is not None,
        changed=changed,
        jobs_running=sum(each.job_id is not None for each in leases),
        renders_running=sum(each.build_id is not None for each in leases),
        serves=call.box.serves(),
    )
