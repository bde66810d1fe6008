"""The queue of the host, for its owner (engine.md, "Leases")."""

from __future__ import annotations

from typing import Annotated

from actors.scheduling import WaitingWork, waiting_work
from api.operations.operation import GET, Call, owners_operation
from storage import immutable


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
