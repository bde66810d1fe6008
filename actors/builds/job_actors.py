"""The job actors of one build, by attempt."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from actors.addresses import Address
    from actors.builds.attempt.assignment import Assignment
    from actors.builds.job_messages import JobMessage
    from actors.builds.states import JobEvent
    from storage import Job

_RESTARTS = 3


class JobActors:
    """Starts and finds a build's job actors, one per attempt. For the supervisor's thread only."""

    def __init__(self, spawn: Callable[[Assignment], Address[JobMessage]]) -> None:
        self._spawn = spawn
        self._actors: dict[tuple[int, int], Address[JobMessage]] = {}
        self._restarts: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._actors)

    def __contains__(self, job: Job) -> bool:
        """Tell whether the job's attempt has an actor."""
        return (job.id, job.attempt) in self._actors

    def start(self, assignment: Assignment, event: JobEvent | None) -> None:
        """Start the actor of an attempt, in place of an earlier one; send it ``event`` if given."""
        job = assignment.job
        address = self._actors[job.id, job.attempt] = self._spawn(assignment)
        if event is not None:
            address.post(event)

    def tell(self, event: JobEvent, jobs: Container[int]) -> None:
        """Send an event to the actors of these jobs."""
        for (job_id, _), address in self._actors.items():
            if job_id in jobs:
                address.post(event)

    def attempt_of(self, urn: str) -> tuple[int, int] | None:
        """Return the row id of an actor's job and the number of its attempt; None if it was replaced."""
        return next((attempt for attempt, address in self._actors.items() if address.urn == urn), None)

    def may_restart(self, job_id: int) -> bool:
        """Count a death of a job's actor; tell whether another may be started."""
        self._restarts[job_id] += 1
        return self._restarts[job_id] <= _RESTARTS

    def forget(self, urn: str) -> None:
        """Forget an actor that has ended, unless it was replaced."""
        attempt = self.attempt_of(urn)
        if attempt is not None:
            del self._actors[attempt]

    def stop(self) -> None:
        """Stop all actors; their VMs run on."""
        for address in self._actors.values():
            address.stop()
