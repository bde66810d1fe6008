"""The failures of requests to a service."""

from __future__ import annotations

from http import HTTPStatus


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
