"""A request as the API sees it."""

from __future__ import annotations

import time
from typing import Any

import falcon

from api.request_id import enter_request

__all__ = ["ApiRequest"]


class ApiRequest(falcon.Request):
    """A request that has a name from its first moment, and whose HEAD is routed as GET.

    ``began`` is when it came, by `time.perf_counter`; ``head`` says that no body is wanted; ``asked`` is the method as
    the caller wrote it. One that HTTP does not know is routed as one that no resource takes, which is what it is.
    ``organization`` is the slug in its path, whether there is such an organization or not.
    """

    __slots__ = ("asked", "began", "head", "organization", "request_id")

    def __init__(self, env: dict[str, Any], options: falcon.RequestOptions | None = None) -> None:
        super().__init__(env, options)
        self.began = time.perf_counter()
        self.request_id = enter_request(env.get("HTTP_X_REQUEST_ID"))
        self.organization: str | None = None
        self.asked = self.method
        self.head = self.asked == "HEAD"
        if self.head:
            self.method = "GET"
        elif self.asked not in falcon.HTTP_METHODS:
            self.method = "TRACE"
