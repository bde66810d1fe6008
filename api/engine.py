"""The live service as the API uses it: `actors.Engine`, or a minimal one in tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from api.errors.catalog import ApiError
from storage import JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from prometheus_client.registry import Collector

    from actors import PreviewHosts
    from actors.forks import ForkWork, Shown
    from actors.render import Envelope
    from actors.vms import PortSocket
    from storage import Build, Caller, ForkTerminal, Gate, Job, Preview, Storage

T = TypeVar("T")

_RETRY_SECONDS = "5"


class ChangeWatch(Protocol):
    """A wait for changes of a job's log or state, or of a build's render."""

    def wait(self, timeout: float) -> bool:
        """Block up to ``timeout`` seconds; True if there was a change since the last wait."""
        ...


class TerminalLook(Protocol):
    """A look at a terminal, in one thread; ``typed`` is how many bytes of input were taken before."""

    typed: int
    replaced: bool
    """True once somebody else looks instead."""

    def part(self, seconds: float) -> Shown | None:
        """Return the next part; None if nothing comes within so many seconds. Raises actors.vms.VmError."""
        ...

    def close(self) -> None:
        """Look away. Idempotent."""
        ...


class TerminalsInterface(Protocol):
    """Terminals on forks of jobs' disks. Calls raise actors.forks.TerminalGone, and actors.vms.VmError."""

    def open(
        self, build: Build, job: Job, caller: Caller, *, before: bool, columns: int, rows: int, budget_id: int | None
    ) -> ForkTerminal:
        """Open a terminal. Raises DiskGone, ForkBusy and TooManyTerminals of actors.forks."""
        ...

    def look(self, terminal: ForkTerminal, number: int) -> TerminalLook:
        """Begin to look at a terminal, from the byte ``number`` on."""
        ...

    def type_in(self, terminal: ForkTerminal, number: int, data: bytes) -> int:
        """Type what begins with the byte ``number`` of the input; return how many bytes were taken in all."""
        ...

    def resize(self, terminal: ForkTerminal, columns: int, rows: int) -> None:
        """Set the size of a terminal in characters."""
        ...

    def close(self, terminal: ForkTerminal, why: str = ...) -> None:
        """End a terminal, and with it its VM; ``why`` is a sentence."""
        ...

    def gone(self, uuid: str) -> str | None:
        """Return why a terminal has ended, or is about to; None if it is open."""
        ...


class PreviewsInterface(Protocol):
    """Previews of the disks of passed jobs."""

    @property
    def hosts(self) -> PreviewHosts | None:
        """The hosts of previews; None if there are none."""
        ...

    def request(self, preview: Preview, seconds: float) -> AbstractContextManager[PortSocket]:
        """Return a connection to a preview's port, for one request; wake it for at most ``seconds`` first.

        Raises PreviewGone, PreviewFailed and PreviewAsleep of actors.forks.
        """
        ...

    def end(self, preview: Preview, why: str) -> None:
        """End a preview, and with it its VM; ``why`` is a sentence."""
        ...


class EngineInterface(Protocol):
    """The running builds. No call here waits for a build."""

    @property
    def draining(self) -> bool:
        """True if the service takes no new builds because it is about to stop."""
        ...

    @property
    def sends_mail(self) -> bool:
        """True if a mail server is configured."""
        ...

    def jobs_added(self, build_id: int, *, need_vms: bool = False) -> None:
        """Announce that a build and its jobs, which may ``need_vms``, are in the storage. Returns at once."""
        ...

    def gate_decided(self, build_id: int) -> None:
        """Announce that the answer to a gate of a build is in the storage. Returns at once."""
        ...

    def render(self, build_id: int) -> None:
        """Announce that a build in the storage needs rendering. Returns at once.

        A `watch` of the build's UUID reports the end of the render.
        """
        ...

    def deliveries_added(self) -> None:
        """Announce that deliveries of source hosts are in the storage. Returns at once."""
        ...

    def notifications_added(self) -> None:
        """Announce that deliveries of notifications are in the storage. Returns at once."""
        ...

    def proofs_changed(self) -> None:
        """Announce that proofs were added or canceled in the storage. Returns at once."""
        ...

    def renders_wait(self) -> str | None:
        """Return why no build is rendered at present, though the service takes builds; None if builds are."""
        ...

    def discover(self, organization: str, slug: str, archive: bytes) -> Envelope | None:
        """Return the pipelines that an archive declares; None if the service is configured not to look.

        Blocks for as long as a render takes. Raises actors.render.RenderFailed, and actors.EngineBusy if no VM is
        available.
        """
        ...

    def run_on_fork(self, build: Build, job: Job, run: ForkWork[T], *, opened_by: str, gone: Callable[[], bool]) -> T:
        """Do work on a fork of a job's disk and return what came of it; stop it if nobody waits any more.

        Blocks meanwhile. Raises DiskGone and RunFailed of actors.forks, what the work raises, and actors.EngineBusy if
        no VM can be had.
        """
        ...

    @property
    def terminals(self) -> TerminalsInterface:
        """The terminals on forks of jobs' disks."""
        ...

    @property
    def previews(self) -> PreviewsInterface:
        """The previews of the disks of passed jobs."""
        ...

    def cancel(self, build_id: int) -> None:
        """Cancel a build; return once that is recorded. Raises actors.EngineBusy if it takes too long."""
        ...

    def watch(self, uuid: str) -> AbstractContextManager[ChangeWatch]:
        """Return a context manager to wait for changes: enter it, read the log, then wait."""
        ...

    def collectors(self) -> Iterable[Collector]:
        """Return the Prometheus collectors of the running builds."""
        ...

    def pending_reason(self, job: Job) -> str | None:
        """Return why a job waits; None if it does not. Never blocks."""
        ...


def waiting_reason(storage: Storage, engine: EngineInterface, job: Job, gate: Gate | None) -> str | None:
    """Return why a job waits: for an answer to its gate, or as the engine says; None if it does not."""
    if gate is not None and job.state is JobState.PENDING:
        from actors import gate_reason  # noqa: PLC0415 - few jobs have gates

        if (own := gate_reason(storage, job, gate)) is not None:
            return own
    return engine.pending_reason(job)


def refuse_while_draining(engine: EngineInterface) -> None:
    """Raise ApiError ``draining`` if the service takes no new builds."""
    if engine.draining:
        raise ApiError(
            "draining", "the service is about to restart; try again soon", headers={"Retry-After": _RETRY_SECONDS}
        )
