"""A request as the API sees it."""

from __future__ import annotations

import time
from typing import Any

import falcon

from api.middleware.access_log import enter_request


class ApiRequest(falcon.Request):
    """A request that has an id from the start, and whose HEAD is routed as GET.

    ``began`` is its arrival by `time.perf_counter`; ``head`` means that no body is wanted; ``asked`` is the method as
    the caller wrote it. A method unknown to HTTP is routed as TRACE, which no resource accepts. ``organization`` is the
    slug in the path, whether the organization exists or not.
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
