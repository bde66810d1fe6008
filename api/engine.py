"""What the API asks of the live service; `actors.Engine` is it, and tests bring the simplest one that works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from prometheus_client.registry import Collector

    from actors.render import Envelope
    from storage import Job

__all__ = ["Engine", "Watch"]


class Watch(Protocol):
    """A place at which a reader of one job's log waits for news."""

    def wait(self, timeout: float) -> bool:
        """Block up to ``timeout`` seconds; True when the log or the state changed since the last wait."""
        ...


class Engine(Protocol):
    """The running builds. No call here waits for a build."""

    @property
    def draining(self) -> bool:
        """Whether the service takes no new builds because it is about to stop."""
        ...

    def jobs_added(self, build_id: int) -> None:
        """Have a build set going whose rows have just been written; returns at once."""
        ...

    def render(self, build_id: int) -> None:
        """Have a build rendered whose row has just been written; returns at once. A watch at its UUID tells the end."""
        ...

    def renders_wait(self) -> str | None:
        """Say why no build is rendered at present, though the service takes builds; None where they are."""
        ...

    def discover(self, organization: str, slug: str, archive: bytes) -> Envelope | None:
        """Return which pipelines an archive declares, None where that is switched off. Takes as long as a render.

        Raises actors.render.RenderFailed, and actors.EngineBusy where no VM is to be had.
        """
        ...

    def cancel(self, build_id: int) -> None:
        """Have a build canceled; returns once that is recorded. Raises actors.EngineBusy where it takes too long."""
        ...

    def watch(self, uuid: str) -> AbstractContextManager[Watch]:
        """Return a place to wait at: enter it first, then look at the log, then wait."""
        ...

    def collectors(self) -> Iterable[Collector]:
        """Return what tells the figures of the running builds."""
        ...

    def pending_reason(self, job: Job) -> str | None:
        """Say why a job waits; None where it does not. Never blocks."""
        ...
