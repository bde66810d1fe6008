"""Bodies that operations check themselves, and their senders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage import User

B = TypeVar("B")


class Sender(Protocol):
    """The caller of an operation, as the creation of a build sees it."""

    @property
    def user(self) -> User | None:
        """The user who calls, None if it is no user."""
        ...

    @property
    def owns_host(self) -> bool:
        """True if the owner of the host calls."""
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
