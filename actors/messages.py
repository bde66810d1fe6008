"""The messages between actors. Calls go down; events go up, and no actor waits for them.

Each actor's `handle` takes the union of its messages, here or beside the actor.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from datetime import datetime

    from actors.builds.states import Progress
    from storage import Lease


@immutable
class ChildStopped:
    """Child to parent: the child has ended, for whatever reason.

    ``transient`` means that it could not begin, because of a transient error.
    """

    urn: str
    transient: bool = False


@immutable
class Granted:
    """Pool to root to build supervisor: this job has a lease now."""

    build_id: int
    lease: Lease


@immutable
class QueueTimedOut:
    """Pool to root to build supervisor: this job has waited too long for a VM; ``why`` is a sentence."""

    build_id: int
    job_id: int
    why: str


@immutable
class ImageFailed:
    """Image puller to root to build supervisor: this job's image cannot be pulled; ``why`` is a sentence."""

    build_id: int
    job_id: int
    why: str


@immutable
class CacheHit:
    """Pool to root to build supervisor: this job has passed on a cache hit and needs no VM."""

    build_id: int
    job_id: int


@immutable
class CancelBuild:
    """Root to build supervisor or render pool: cancel the build.

    ``recorded`` is set once the cancel of every waiting job is in the storage.
    """

    build_id: int
    recorded: threading.Event


@immutable
class TurnGiven:
    """Root to build supervisor: the build, which was retried, has a place in its concurrency group again."""

    build_id: int


@immutable
class GateDue:
    """Engine or timer to root to build supervisor: look at the build's gates.

    One was decided, its time may be up, or it is to be asked.
    """

    build_id: int


@immutable
class BuildTimedOut:
    """Timer to root to build supervisor: the time of the build that began at ``started_at`` is up."""

    build_id: int
    started_at: datetime | None = None


@immutable
class JobChanged:
    """Job actor to build supervisor: the job's new state is in the storage."""

    job_id: int
    progress: Progress


ForBuild = Granted | QueueTimedOut | ImageFailed | CacheHit | CancelBuild | TurnGiven | GateDue | BuildTimedOut
"""The messages that root passes on to the supervisor of their build."""

BuildMessage = ForBuild | JobChanged | ChildStopped
"""The messages of a build supervisor."""


@immutable
class BuildCreated:
    """Engine to root: this build and its jobs are in the storage, and it may go on without a VM."""

    build_id: int


@immutable
class Idle:
    """Build supervisor to root: no job actor is left.

    ``received`` counts the messages from root so far, so root can tell whether one is still on its way.
    """

    build_id: int
    urn: str
    received: int
    finished: bool


@immutable
class Reschedule:
    """To a pool: look at the queue again, there may be more scheduled jobs, or builds to be rendered."""


@immutable
class PollStorage:
    """Timer to root, and root to its actors: read the storage for requests of other processes."""


@immutable
class Reap:
    """Timer to root: run the reaper."""


@immutable
class Expire:
    """Timer to root: apply the retention rules, and verify the ledger."""


@immutable
class MakeRoom:
    """Pool to root: the host's disk lacks this many bytes; free what is not needed."""

    bytes: int


RootMessage = ForBuild | BuildCreated | Idle | Reschedule | PollStorage | Reap | Expire | MakeRoom | ChildStopped
"""The messages of the root supervisor."""


@immutable
class Released:
    """To the lease pool: this lease's VM is gone."""

    lease_id: int


@immutable
class ResyncLeases:
    """To the lease pool: compare the leases in use with the storage, because messages may have been lost."""


@immutable
class Refill:
    """Timer to the lease pool: try again to park VMs, after one could not be parked."""


@immutable
class Drain:
    """To the pools: grant no more VMs."""


@immutable
class TakeParked:
    """Renders and forks to the lease pool: give away a parked VM of a provider.

    If a ``member`` is given, only one there will do. ``claim`` returns the lease for the row id of one; ``taken``
    gets it, and stays empty if ``claim`` returns none.
    """

    provider: str
    claim: Callable[[int], Lease | None]
    member: str | None = None
    taken: list[Lease] = field(default_factory=list)


@immutable
class ArchiveRendered:
    """To the render pool: an archive without a build was rendered, or could not be."""


LeasePoolMessage = Reschedule | PollStorage | Released | ResyncLeases | Refill | Drain | TakeParked
"""The messages of the lease pool."""

RenderPoolMessage = Reschedule | PollStorage | CancelBuild | Drain | ArchiveRendered
"""The messages of the render pool."""


@immutable
class ImagesAwaited:
    """Lease pool to image puller: more jobs wait for images than before."""


MailSenderMessage = PollStorage
"""The messages of the mail sender."""

NotifierMessage = PollStorage
"""The messages of the notifier."""

ProverMessage = PollStorage | Drain
"""The messages of the prover."""

RepositoryWatcherMessage = PollStorage
"""The messages of the repository watcher."""

StatusReporterMessage = PollStorage
"""The messages of the status reporter."""

ScheduleRunnerMessage = PollStorage | Drain
"""The messages of the schedule runner."""

CulpritFinderMessage = PollStorage | Drain
"""The messages of the culprit finder."""

SourceFetcherMessage = PollStorage | Drain
"""The messages of the source fetcher."""

ImagePullerMessage = ImagesAwaited | PollStorage
"""The messages of the image puller."""
