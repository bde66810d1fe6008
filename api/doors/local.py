"""The door of a command, and that of the owner of the host: operations in process, without HTTP."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from api.operations.operation import GET, Call, Download, HostOwner, Query, Span
from api.operations.service import Service
from storage import DatabaseUnavailable, document_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from actors import PreviewHosts
    from actors.forks import ForkWork
    from actors.ir import IrSettings
    from actors.render import Envelope
    from actors.vms import PortSocket
    from api.builds.creation import BuildCreation
    from api.engine import ChangeWatch, PreviewsInterface, TerminalsInterface
    from api.operations.operation import Operation
    from storage import Build, Clock, Job, Page, Preview, Storage

R = TypeVar("R")

_log = logging.getLogger(__name__)

_ROWS = 100
_BLOCK = 1 << 20

NO_QUERY: Mapping[str, str] = MappingProxyType({})
_NO_BUILDS_HERE = "only the service, in its own process, renders and watches builds"


class Door(Protocol):
    """The way of a command to the operations, on the box or of a server."""

    @property
    def owners(self) -> bool:
        """True if it is the owner's of the host, for whom there are operations that no caller has."""
        ...

    def perform(self, operation: Operation[R], names: Mapping[str, str], body: object = None) -> R:
        """Perform an operation on the things that ``names`` gives the path. Raises the refusal of this door.

        An operation of the owner takes its body as an object of its class, each other one a document.
        """
        ...

    def rows(
        self,
        operation: Operation[Page[Any]] | Operation[list[Any]],
        names: Mapping[str, str],
        *,
        query: Mapping[str, str] = NO_QUERY,
    ) -> Iterator[Any]:
        """Yield the rows of a list that a query asks for, to its end. Raises the refusal of this door."""
        ...

    def download(
        self, operation: Operation[Download], names: Mapping[str, str], start: int
    ) -> AbstractContextManager[Iterator[bytes]]:
        """Open a file from a byte on: its chunks as they arrive. Raises the refusal of this door."""
        ...

    def take(
        self, operation: Operation[Download], names: Mapping[str, str], body: object
    ) -> AbstractContextManager[tuple[str, Iterator[bytes]]]:
        """Ask for a file to be made: a name for it and its chunks. Raises the refusal of this door."""
        ...


class OtherPreviews:
    """Previews of a service in another process, which looks each second at those that are awake."""

    def __init__(self, storage: Storage, hosts: PreviewHosts | None) -> None:
        self._storage = storage
        self.hosts = hosts

    def request(self, preview: Preview, seconds: float) -> AbstractContextManager[PortSocket]:
        """Raise NotImplementedError: only the service has their VMs."""
        raise NotImplementedError(_NO_BUILDS_HERE)

    def end(self, preview: Preview, why: str) -> None:
        """End a preview; the service ends its VM."""
        self._storage.previews.end(preview.id, why)


class OtherProcess:
    """The engine of a service in another process, which looks each second for work in the storage."""

    draining = False
    sends_mail = True

    def __init__(self, storage: Storage, preview_hosts: PreviewHosts | None = None) -> None:
        self._storage = storage
        self._previews = OtherPreviews(storage, preview_hosts)

    def jobs_added(self, build_id: int, *, need_vms: bool = False) -> None:
        """Leave the jobs to the service."""

    def gate_decided(self, build_id: int) -> None:
        """Leave the answer to the service."""

    def render(self, build_id: int) -> None:
        """Leave the render to the service."""

    def deliveries_added(self) -> None:
        """Leave the deliveries to the service."""

    def notifications_added(self) -> None:
        """Leave the deliveries to the service."""

    def proofs_changed(self) -> None:
        """Leave the proofs to the service."""

    def renders_wait(self) -> None:
        """Return None: nobody waits here."""

    def discover(self, organization: str, slug: str, archive: bytes) -> Envelope | None:
        """Raise NotImplementedError."""
        raise NotImplementedError(_NO_BUILDS_HERE)

    def run_on_fork(self, build: Build, job: Job, run: ForkWork[R], *, opened_by: str, gone: Callable[[], bool]) -> R:
        """Raise NotImplementedError: the owner of the host makes VMs without the service."""
        raise NotImplementedError(_NO_BUILDS_HERE)

    @property
    def terminals(self) -> TerminalsInterface:
        """Raise NotImplementedError: the owner of the host opens shells without the service."""
        raise NotImplementedError(_NO_BUILDS_HERE)

    @property
    def previews(self) -> PreviewsInterface:
        """The previews, which are awake in the service."""
        return self._previews

    def cancel(self, build_id: int) -> None:
        """Ask the service to cancel a build."""
        self._storage.builds.request_cancel(build_id)

    def watch(self, uuid: str) -> AbstractContextManager[ChangeWatch]:
        """Raise NotImplementedError."""
        raise NotImplementedError(_NO_BUILDS_HERE)

    def collectors(self) -> tuple[()]:
        """Return none."""
        return ()

    def pending_reason(self, job: Job) -> None:
        """Return None: the service alone knows."""


def service_elsewhere(storage: Storage, clock: Clock, preview_hosts: PreviewHosts | None = None) -> Service:
    """Return the parts of a service that runs in another process, or will."""
    return Service(storage, clock, OtherProcess(storage, preview_hosts))


def creation_elsewhere(service: Service, limits: IrSettings) -> BuildCreation:
    """Return the creation of builds that the service renders and runs, for which nobody waits here."""
    from api.builds.creation import BuildCreation  # noqa: PLC0415 - planning takes long to import
    from api.builds.render_wait import RendersElsewhere  # noqa: PLC0415 - the same

    storage, engine = service.storage, service.engine
    return BuildCreation(storage, engine, limits, RendersElsewhere(storage, engine, service.clock))


class LocalDoor:
    """Performs operations for the owner of the host, and notes those that change something in the audit.

    ``actor`` and ``origin`` are the owner there, and ``via`` the way to this door. Raises ApiError, and Refused and
    StorageError as the operations do.
    """

    owners = True

    def __init__(self, service: Service, actor: str, origin: str, via: str = "box") -> None:
        self._owner = HostOwner(actor)
        self._call = Call(service, self._owner)
        self._origin = origin
        self._via = via

    def perform(self, operation: Operation[R], names: Mapping[str, str], body: object = None) -> R:
        """Perform an operation on the things that ``names`` gives the path."""
        changes = operation.method is not GET and operation.changes
        try:
            result = operation.perform(self._call, names, lambda: {} if body is None else body)
        except KeyboardInterrupt:
            if changes:
                self._note(operation, names, None, "interrupted, ")
            raise
        if changes:
            self._note(operation, names, result)
        return result

    def rows(
        self,
        operation: Operation[Page[Any]] | Operation[list[Any]],
        names: Mapping[str, str],
        body: object = None,
        *,
        query: Mapping[str, str] = NO_QUERY,
    ) -> Iterator[Any]:
        """Yield the rows of a list that a query, or ``body`` where it is taken, asks for, to its end."""
        asked = Query({each.name: query.get(each.name, "") for each in operation.parameters})
        after: int | None = None
        while True:
            page = operation.perform(self._call, names, lambda: body, partial(_span, after), asked)
            if isinstance(page, list):
                yield from page
                return
            yield from page.rows
            if page.next_key is None:
                return
            after = page.next_key

    def page(self, operation: Operation[Page[Any]], names: Mapping[str, str], body: object, span: Span) -> Page[Any]:
        """Return one page of a list."""
        return operation.perform(self._call, names, lambda: body, lambda _ids: span)

    @contextmanager
    def download(
        self, operation: Operation[Download], names: Mapping[str, str], start: int
    ) -> Iterator[Iterator[bytes]]:
        """Open a file from a byte on."""
        found = operation.perform(self._call, names, dict)
        yield (found.file.read(at, _BLOCK) for at in range(start, found.size, _BLOCK))

    @contextmanager
    def take(
        self, operation: Operation[Download], names: Mapping[str, str], body: object
    ) -> Iterator[tuple[str, Iterator[bytes]]]:
        """Make a file; that is noted."""
        made = self.perform(operation, names, body)
        yield made.name, (made.file.read(at, _BLOCK) for at in range(0, made.size, _BLOCK))

    def _note(self, operation: Operation[Any], names: Mapping[str, str], result: object, outcome: str = "") -> None:
        from api.middleware.audit import detail_of, subject_of  # noqa: PLC0415 - what only reads is not noted

        is_file = operation.record is Download
        shown = None if result is None or is_file else SimpleNamespace(**document_of(result))
        subject, effect = subject_of(operation.path, names, shown), getattr(shown, "effect", None)
        organization = names.get("org") or getattr(shown, "slug", None) or getattr(shown, "organization", None)
        said = "" if outcome else detail_of(operation.id, result)
        note = f"{outcome}{said}{f'{effect}, ' if effect else ''}{self._via}"
        write = self._call.storage.audit.write
        try:
            write(self._owner.name, operation.id, subject, note, origin=self._origin, organization=organization)
        except DatabaseUnavailable:
            _log.exception("%s of %s was made, but could not be written to the audit", operation.id, subject)


def _span(after: int | None, _ids: str) -> Span:
    return Span(_ROWS, after)
