"""The drain of a host, for its owner (engine.md, "Drain")."""

from __future__ import annotations

from api.operations.operation import DELETE, GET, POST, Call, owners_operation
from storage import hidden, immutable

_DRAIN = "/drain"


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
