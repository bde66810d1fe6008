"""Failures of requests to a service, and further tries while it restarts or is at its limits."""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable


class RequestFailed(Exception):
    """The service refused a request; ``code`` is an error code of the API, the message is for the user."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code

    @property
    def retryable(self) -> bool:
        """True if the same request may succeed later."""
        return self.status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}


class ServiceUnreachable(Exception):
    """Nothing answers at the address; the message says what to check."""

    retryable = True


T = TypeVar("T")

_FIRST_PAUSE, _MAX_PAUSE = 0.1, 2.0


class Backoff:
    """Back-off that times out ``seconds`` after the first of consecutive errors."""

    def __init__(self, seconds: float = 60.0) -> None:
        self._seconds = seconds
        self._since: float | None = None
        self._pause = _FIRST_PAUSE

    def reset(self) -> None:
        """Reset after a success."""
        self._since = None
        self._pause = _FIRST_PAUSE

    def wait_or_raise(self, error: RequestFailed | ServiceUnreachable) -> None:
        """Sleep before the next try, or raise the error if it is permanent or the time is up."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if not error.retryable or now + self._pause > self._since + self._seconds:
            raise error
        time.sleep(self._pause)
        self._pause = min(self._pause * 2, _MAX_PAUSE)


def retry(call: Callable[[], T]) -> T:
    """Retry a call until it succeeds or the time is up; then raise its last error."""
    backoff = Backoff()
    while True:
        try:
            return call()
        except (RequestFailed, ServiceUnreachable) as error:
            backoff.wait_or_raise(error)
