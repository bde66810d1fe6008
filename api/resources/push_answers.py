"""The answer to a person who pushes: what the push started, or why it started nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field, TypeAdapter, ValidationError

from actors.source_hosts import PushedRef
from api.errors.catalog import ApiError
from api.fields import NUMBER
from api.http.slots import LogReader, RequestWait
from api.openapi.operations import Parameter
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import falcon

    from actors import FrontEnd
    from actors.source_hosts import HostEvent
    from api.engine import EngineInterface
    from api.http.slots import StreamSlots
    from storage import Clock, Delivery, PushOutcome, Repository, Storage

_MAX_WAIT = 10
_SECONDS = TypeAdapter(Annotated[float, Field(ge=0, le=_MAX_WAIT), NUMBER])
_MOST_REFS = 20
_MOST_LINES = 40
_MOST_CHARACTERS = 400

WAIT = Parameter(
    "wait",
    "For `git`: the answer says in words what each pushed branch and tag started, after so many seconds at most.",
    _SECONDS.json_schema(),
)


def wait_seconds(text: str | None) -> float | None:
    """Return the most seconds that a caller waits; None if it asks for no text. Raises ApiError."""
    if text is None:
        return None
    try:
        return _SECONDS.validate_python(text)
    except ValidationError:
        raise ApiError("invalid_wait", f"wait: expected a number of seconds from 0 to {_MAX_WAIT}") from None


@immutable
class _Told:
    """The lines for the person who pushes, ``complete`` if the push starts nothing more soon."""

    lines: list[str]
    complete: bool


class PushAnswers:
    """Waits for the outcomes of pushes, and says them in lines for a terminal. Safe in any thread.

    A wait holds a thread and so takes a stream slot. If there is none, or the service is about to close, the answer
    comes at once, and says where to look.
    """

    def __init__(
        self, storage: Storage, engine: EngineInterface, slots: StreamSlots, clock: Clock, front_end: FrontEnd, url: str
    ) -> None:
        """Link to builds at a front end, and to repositories at the console of the service at ``url``."""
        self._storage = storage
        self._engine = engine
        self._slots = slots
        self._clock = clock
        self._front_end = front_end
        self._url = url

    def text(
        self,
        req: falcon.Request,
        repository: Repository,
        delivery: Delivery,
        events: Iterable[HostEvent],
        seconds: float,
    ) -> str:
        """Return what came of the delivery of a push within so many seconds, a line for each thing."""
        pushed = [each for each in events if isinstance(each, PushedRef)]
        return "".join(f"{_visible(line)}\n" for line in self._after_wait(req, repository, delivery, pushed, seconds))

    def _after_wait(
        self,
        req: falcon.Request,
        repository: Repository,
        delivery: Delivery,
        pushed: list[PushedRef],
        seconds: float,
    ) -> list[str]:
        until = self._clock.monotonic() + seconds
        told = self._told(repository, delivery, pushed)
        reader = LogReader(f"pushes to {repository.uuid}", public=False)
        slot = None if told.complete or not seconds else self._slots.acquire_for_reader(reader)
        if slot is None:
            return told.lines
        waiting = RequestWait.of(req, self._clock, self._slots)
        try:
            with self._engine.watch(repository.uuid) as watch:
                told = self._told(repository, delivery, pushed)
                waits = True
                while waits and not told.complete:
                    waits = waiting.wait(watch, until)
                    told = self._told(repository, delivery, pushed)
        finally:
            slot.release()
        return told.lines

    def _told(self, repository: Repository, delivery: Delivery, pushed: list[PushedRef]) -> _Told:
        now = self._storage.deliveries.find(delivery.uuid) or delivery
        obstacle = now.last_error or self._engine.renders_wait()
        lines: list[str] = []
        complete = True
        for push in pushed[:_MOST_REFS]:
            found = None if push.new is None else self._outcome(repository, now, push, push.new)
            if found is not None:
                lines += self._came(found)
            elif push.new is None:
                lines.append(f"{_name(push.ref)}: nothing was built: it was deleted")
            elif now.processed_at is not None:
                lines.append(f"{_name(push.ref)}: nothing was built: it was known already, or has moved on")
            else:
                complete = obstacle is not None
                lines.append(f"{_name(push.ref)}: it is not built yet{f': {obstacle}' if obstacle else ''}")
        more = max(len(pushed) - _MOST_REFS, 0) + max(len(lines) - _MOST_LINES, 0)
        if not pushed:
            lines = ["nothing was built: no branch or tag was pushed"]
        told = [f"ci-daemon: {each}" for each in lines[:_MOST_LINES]]
        if more or not complete or (obstacle and now.processed_at is None):
            also = f"{more} more, and what is built later" if more else "what comes of it"
            told.append(f"ci-daemon: {also}: {self._page(repository)}")
        return _Told(told, complete)

    def _outcome(self, repository: Repository, delivery: Delivery, push: PushedRef, new: str) -> PushOutcome | None:
        """Return the outcome of a push, None while there is none.

        That of the same commit, pushed before, is none; but the push may have been found before its report came.
        """
        found = self._storage.push_outcomes.find(repository.id, push.ref, new)
        if found is None or delivery.processed_at is not None:
            return found
        is_tag = push.ref.startswith("refs/tags/")  # an annotated one may be named by its object
        return found if found.recorded_at >= delivery.received_at and (is_tag or found.commit == new) else None

    def _came(self, outcome: PushOutcome) -> Iterator[str]:
        name, pages = _name(outcome.ref), outcome.pages.splitlines()
        count, _, words = outcome.outcome.partition(": ")
        if not pages:
            yield f"{name}: nothing was built: {words}"
        elif len(pages) == 1:
            yield f"{name}: {words} {self._address(pages[0])}"
        else:
            yield f"{name}: {count}: {words}"
            yield from (f"{name}: {self._address(page)}" for page in pages)

    def _address(self, page: str) -> str:
        organization, _, pipeline, _, number = page.split("/")
        build = self._storage.builds.find(organization, pipeline, int(number))
        return f"{self._url}/{page}" if build is None else self._front_end.page_of(build)

    def _page(self, repository: Repository) -> str:
        organization = self._storage.organizations.by_id(repository.organization_id)
        return f"{self._url}/{organization.slug if organization else ''}/repositories/{repository.uuid}"


def _name(ref: str) -> str:
    return ref.removeprefix("refs/heads/").removeprefix("refs/tags/")


def _visible(line: str) -> str:
    """Return a line whose control characters, which may be a stranger's, do nothing to a terminal."""
    cut = line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}…"
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in cut)
