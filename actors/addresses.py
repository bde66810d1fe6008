"""Addresses of actors, typed by the messages that they take."""

from __future__ import annotations

import contextlib
from dataclasses import field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pykka

from storage import immutable

if TYPE_CHECKING:
    from actors.messages import (
        CulpritFinderMessage,
        ImagePullerMessage,
        LeasePoolMessage,
        MailSenderMessage,
        NotifierMessage,
        ProverMessage,
        RenderPoolMessage,
        RepositoryWatcherMessage,
        RootMessage,
        ScheduleRunnerMessage,
        SourceFetcherMessage,
        StatusReporterMessage,
    )

M_contra = TypeVar("M_contra", contravariant=True)


class Address(Generic[M_contra]):
    """The mailbox of an actor; empty until an actor takes it. Safe in any thread.

    mypy rejects a message that the actor does not handle. If the actor dies, its parent may let a
    successor take over the address.
    """

    def __init__(self, ref: pykka.ActorRef[Any] | None = None) -> None:
        self._ref = ref

    @property
    def urn(self) -> str | None:
        """The identity of the actor that is here now; its successor has another."""
        return None if self._ref is None else self._ref.actor_urn

    def post(self, message: M_contra) -> None:
        """Send an event without waiting. If no actor is here, it is lost; a successor reads the storage."""
        if self._ref is not None:
            with contextlib.suppress(pykka.ActorDeadError):
                self._ref.tell(message)

    def ask(self, message: M_contra) -> None:
        """Send a message and wait until it is handled. Raises pykka.ActorDeadError."""
        if self._ref is not None:
            self._ref.ask(message)

    def hand_over(self, successor: Address[M_contra]) -> None:
        """Send messages to a successor from now on."""
        self._ref = successor._ref

    def stop(self, *, block: bool = True) -> None:
        """Stop the actor; return when it has ended, unless told not to ``block``."""
        if self._ref is not None and self._ref.is_alive():
            self._ref.stop(block=block)


@immutable
class Addresses:
    """The addresses of the long-lived actors. Only the root supervisor lets successors take them over."""

    root: Address[RootMessage] = field(default_factory=Address)
    pool: Address[LeasePoolMessage] = field(default_factory=Address)
    images: Address[ImagePullerMessage] = field(default_factory=Address)
    renders: Address[RenderPoolMessage] = field(default_factory=Address)
    mail: Address[MailSenderMessage] = field(default_factory=Address)
    repositories: Address[RepositoryWatcherMessage] = field(default_factory=Address)
    schedules: Address[ScheduleRunnerMessage] = field(default_factory=Address)
    culprits: Address[CulpritFinderMessage] = field(default_factory=Address)
    sources: Address[SourceFetcherMessage] = field(default_factory=Address)
    statuses: Address[StatusReporterMessage] = field(default_factory=Address)
    notifications: Address[NotifierMessage] = field(default_factory=Address)
    proofs: Address[ProverMessage] = field(default_factory=Address)
