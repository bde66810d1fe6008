"""The messages between actors. Calls go down; events go up, and no actor waits for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from actors.states import Progress
    from storage import Lease

__all__ = [
    "BuildTimedOut",
    "CacheHit",
    "CancelBuild",
    "ChildStopped",
    "Demand",
    "Drain",
    "Expire",
    "ForBuild",
    "Granted",
    "Idle",
    "ImageFailed",
    "ImagesAwaited",
    "JobChanged",
    "Look",
    "MakeRoom",
    "MeasureDisk",
    "Overdue",
    "Planted",
    "QueueTimedOut",
    "Reap",
    "Recount",
    "Refill",
    "Released",
    "StepTimedOut",
    "Stirred",
    "Subscribe",
    "TaskDone",
    "TaskFailed",
    "Undertake",
    "Unsubscribe",
]


@dataclass(frozen=True, slots=True)
class TaskDone:
    """Worker thread to its actor: the task is done."""

    task: str
    result: object


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """Worker thread to its actor: the task raised an error."""

    task: str
    error: Exception


@dataclass(frozen=True, slots=True)
class Undertake:
    """Timer to an actor: run this task, for which the host had no thread before."""

    task: str
    function: Callable[[], object]


@dataclass(frozen=True, slots=True)
class ChildStopped:
    """Child to parent: the child has ended, for whatever reason.

    ``held_up`` means that it could not begin, for a reason that passes by itself.
    """

    urn: str
    held_up: bool = False


@dataclass(frozen=True, slots=True)
class Granted:
    """Pool to root to build supervisor: this job has a lease now."""

    build_id: int
    lease: Lease


@dataclass(frozen=True, slots=True)
class QueueTimedOut:
    """Pool to root to build supervisor: this job has waited too long for a VM; ``why`` is a sentence."""

    build_id: int
    job_id: int
    why: str


@dataclass(frozen=True, slots=True)
class ImagesAwaited:
    """Pool to image puller: more jobs wait for images than before."""


@dataclass(frozen=True, slots=True)
class ImageFailed:
    """Image puller to root to build supervisor: this job's image cannot be pulled; ``why`` is a sentence."""

    build_id: int
    job_id: int
    why: str


@dataclass(frozen=True, slots=True)
class CacheHit:
    """Pool to root to build supervisor: this job has passed on a cache hit and needs no VM."""

    build_id: int
    job_id: int


@dataclass(frozen=True, slots=True)
class Planted:
    """Engine to root: this build and its jobs are in the storage."""

    build_id: int


@dataclass(frozen=True, slots=True)
class CancelBuild:
    """Root to build supervisor: cancel the build.

    ``recorded`` is set once the cancel of every waiting job is in the storage.
    """

    build_id: int
    recorded: threading.Event


@dataclass(frozen=True, slots=True)
class BuildTimedOut:
    """Timer to root to build supervisor: the build's time is up."""

    build_id: int


ForBuild = Granted | QueueTimedOut | ImageFailed | CacheHit | CancelBuild | BuildTimedOut
"""The messages that root passes on to the supervisor of their build."""


@dataclass(frozen=True, slots=True)
class StepTimedOut:
    """Timer to job actor: the command's time is up, and its VM has had time to end it."""


@dataclass(frozen=True, slots=True)
class Overdue:
    """Timer to job actor: a command that is being killed should be dead by now."""


@dataclass(frozen=True, slots=True)
class MeasureDisk:
    """Timer to job actor: measure the VM's disk."""


@dataclass(frozen=True, slots=True)
class JobChanged:
    """Job actor to build supervisor: the job's new state is in the storage."""

    job_id: int
    progress: Progress


@dataclass(frozen=True, slots=True)
class Idle:
    """Build supervisor to root: nothing runs here, after the ``received``-th message from root."""

    build_id: int
    urn: str
    received: int
    finished: bool


@dataclass(frozen=True, slots=True)
class Demand:
    """To a pool: look at the queue again, there may be more scheduled jobs, or builds to be rendered."""


@dataclass(frozen=True, slots=True)
class Released:
    """To the pool: this lease's VM is gone."""

    lease_id: int


@dataclass(frozen=True, slots=True)
class Recount:
    """To the pool: resync the held leases with the storage, because messages may have been lost."""


@dataclass(frozen=True, slots=True)
class Refill:
    """Timer to the pool: try again to make the warm VMs that could not be made."""


@dataclass(frozen=True, slots=True)
class Drain:
    """To the pools: grant no more VMs."""


@dataclass(frozen=True, slots=True)
class Expire:
    """Timer to root: apply the retention rules, and verify the ledger."""


@dataclass(frozen=True, slots=True)
class Look:
    """Timer to root, and root to its actors: poll the storage for requests of other processes."""


@dataclass(frozen=True, slots=True)
class MakeRoom:
    """Pool to root: the host's disk lacks this many bytes; free what is not needed."""

    bytes: int


@dataclass(frozen=True, slots=True)
class Reap:
    """Timer to root: run the reaper."""


@dataclass(frozen=True, slots=True)
class Subscribe:
    """To the hub: set ``changed`` whenever the job's log or state changes."""

    job_uuid: str
    changed: threading.Event


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """To the hub: this reader is gone."""

    job_uuid: str
    changed: threading.Event


@dataclass(frozen=True, slots=True)
class Stirred:
    """To the hub: the job's log grew or its state changed."""

    job_uuid: str
