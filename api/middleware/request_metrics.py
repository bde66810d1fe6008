"""Metrics of requests for Prometheus."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prometheus_client import Counter, Histogram

if TYPE_CHECKING:
    import falcon
    from prometheus_client import CollectorRegistry

    from api.request import ApiRequest

_NO_ROUTE = "-"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_NO_METHOD = "other"


class RequestMetrics:
    """Middleware that counts responses by route, not by path: callers must not be able to make up labels."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._responses = Counter(
            "ci_daemon_http_requests",
            "Requests with a response.",
            labelnames=("method", "route", "status"),
            registry=registry,
        )
        self._seconds = Histogram(
            "ci_daemon_http_request_seconds",
            "Seconds from a request to the start of its response.",
            labelnames=("method", "route"),
            registry=registry,
        )

    def process_response(
        self,
        req: ApiRequest,
        resp: falcon.Response,
        resource: object,
        req_succeeded: bool,  # noqa: FBT001 - falcon's signature
    ) -> None:
        """Count a response."""
        method = req.asked if req.asked in _METHODS else _NO_METHOD
        route = req.uri_template or _NO_ROUTE
        self._responses.labels(method, route, str(resp.status_code)).inc()
        self._seconds.labels(method, route).observe(time.perf_counter() - req.began)
