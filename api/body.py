"""Fields of the bodies of operations, for the check, the document of the API and the command.

A body is a data class whose types are declared in `api.fields`, which brings pydantic. What a command needs to know for
its options stands here and at the field (`storage.described`), so that a command which sends none does without.
"""

from __future__ import annotations

import sys
from dataclasses import fields
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from storage import NewEntry, User

B = TypeVar("B")

MAX_TEXT = 255
"""The most characters of a name, a path or a URL."""

MAX_LONG_TEXT = 10_000
"""The most characters of a message or a description."""

ABSENT: Any = object()
"""The default of a field of a body that changes nothing if it is absent, and may not be null."""

FAIL_FAST = "Whether the first failure cancels the rest of a build."
SUPERSEDED = "The builds that a newer push cancels: waiting ones, running ones of all branches but the default, or all."
FIND_CULPRITS = "Whether the commit is searched that breaks a job of the default branch."
STRICT_SHELL = "Whether each line of a command that fails fails its step, in builds from now on."
"""The sentences of settings that organizations and pipelines both have."""


@immutable
class BodyField:
    """A field of a body, as its class declares it.

    ``kind`` is its type as it is written there, without None; ``choices`` are its only values if it has some, members
    of the enum of its type; ``default`` is MISSING if it is required.
    """

    name: str
    kind: str
    nullable: bool
    default: object
    about: str | None
    word: str | None
    choices: tuple[str, ...]
    bounds: tuple[int, int] | None


@cache
def body_fields(body: Any) -> Mapping[str, BodyField]:  # noqa: ANN401 - mypy takes no class for hashable
    """Return the fields of the class of a body, by their names."""
    types = vars(sys.modules[body.__module__])
    declared: dict[str, BodyField] = {}
    for each in fields(body):
        written = str(each.type)
        kind = written.removesuffix(" | None")
        enum = types.get(kind)
        members = tuple(enum) if isinstance(enum, type) and issubclass(enum, StrEnum) else ()
        declared[each.name] = BodyField(
            name=each.name,
            kind=kind,
            nullable=kind != written,
            default=each.default,
            about=each.metadata.get("about"),
            word=each.metadata.get("word"),
            choices=tuple(each.metadata.get("choices") or members),
            bounds=each.metadata.get("bounds"),
        )
    return declared


def given(body: object) -> dict[str, Any]:
    """Return the fields of a body that are not absent."""
    kind: Any = type(body)
    values = {name: getattr(body, name) for name in body_fields(kind)}
    return {name: value for name, value in values.items() if value is not ABSENT}


@immutable
class OwnEntry:
    """The audit's entry of a request, which an operation may write in the transaction of its change.

    ``make`` returns it. Who has written it calls ``wrote``, and nobody writes another one.
    """

    make: Callable[[], NewEntry]
    wrote: Callable[[], None]


class Sender(Protocol):
    """The caller of an operation, as the creation of a build sees it."""

    @property
    def user(self) -> User | None:
        """The user who calls, None if it is no user."""
        ...

    @property
    def budget_id(self) -> int | None:
        """The API key whose budget pays for what is asked for; None if it has none."""
        ...

    @property
    def entry(self) -> OwnEntry | None:
        """The audit's entry of its request; None in a command, which writes it itself."""
        ...

    @property
    def client_gone(self) -> Callable[[], bool]:
        """Tells whether nobody waits for the answer any more."""
        ...


@immutable
class Submission(Generic[B]):
    """A parsed body that the operation checks itself, after what is cheaper or more urgent to refuse.

    ``key`` is the request's idempotency key, ``digest`` the SHA-256 of the request.
    """

    document: object
    kind: type[B]
    key: str | None = None
    digest: bytes = b""

    def body(self) -> B:
        """Return the body. Raises ApiError ``invalid_body``."""
        from api.models import body_of  # noqa: PLC0415 - pydantic, of which most calls on the box need nothing

        return body_of(self.document, self.kind)
