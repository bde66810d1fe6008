"""The messages and tasks of a job actor."""

from __future__ import annotations

from enum import StrEnum

from actors.builds.attempt.runner import Prepared
from actors.builds.outcome import AttemptResult, DiskUse
from actors.builds.states import JobEvent
from actors.vms import Exited
from storage import immutable


class JobTask(StrEnum):
    """A phase of an attempt, which blocks a worker thread."""

    ACQUIRE = "acquire"
    PREPARE = "prepare"
    FOLLOW = "follow"
    MEASURE = "measure"
    KILL = "kill"
    FINALIZE = "finalize"
    RELEASE = "release"


@immutable
class CommandTimedOut:
    """Timer: the command's time is up, and its VM has had time to end it."""


@immutable
class KillOverdue:
    """Timer: a command that is being killed should be dead by now."""


@immutable
class MeasureDisk:
    """Timer: measure the VM's disk."""


@immutable
class RecordAgain:
    """Timer: record this result, which could not be recorded before."""

    result: AttemptResult


@immutable
class Acquired:
    """Worker: the VM is there and connected, on a member if there are several."""

    member: str | None


@immutable
class Finalized:
    """Worker: artifacts and disk are kept; this is the attempt's result."""

    result: AttemptResult


@immutable
class Destroyed:
    """Worker: the VM is gone."""


PhaseDone = Acquired | Prepared | Exited | DiskUse | Finalized
"""The results of phases that are ignored once the end of the attempt is recorded."""

JobMessage = JobEvent | CommandTimedOut | KillOverdue | MeasureDisk | RecordAgain | PhaseDone | Destroyed
"""The messages of a job actor; only events come from other actors."""
