"""``GET /metrics``: the state of the service for Prometheus (wire-decisions.md, "Meta")."""

from __future__ import annotations

import hmac
import time
from typing import TYPE_CHECKING

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

from api.access import bearer
from api.addresses import is_local
from api.errors import ApiError
from api.gauges import ServiceGauges
from api.operations import Answer, operation

if TYPE_CHECKING:
    import falcon

    from api.engine import Engine
    from api.rate_limits import RateLimits
    from api.request import ApiRequest
    from storage import Storage

__all__ = ["Metrics", "RequestMetrics", "registry_of"]

_NO_ROUTE = "-"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_NO_METHOD = "other"


def registry_of(storage: Storage, engine: Engine) -> CollectorRegistry:
    """Return a registry of one service's metrics: storage, engine and process."""
    registry = CollectorRegistry()
    for collector in (ServiceGauges(storage, engine), *engine.collectors()):
        registry.register(collector)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


class RequestMetrics:
    """Middleware that counts responses by route, not by path: callers must not be able to make up labels."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._answers = Counter(
            "ci_daemon_http_requests",
            "Requests answered.",
            labelnames=("method", "route", "status"),
            registry=registry,
        )
        self._seconds = Histogram(
            "ci_daemon_http_request_seconds",
            "From a request to the beginning of its answer.",
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
        self._answers.labels(method, route, str(resp.status_code)).inc()
        self._seconds.labels(method, route).observe(time.perf_counter() - req.began)


class Metrics:
    """``/metrics``, for programs on this host and for callers with the configured token."""

    def __init__(self, registry: CollectorRegistry, rates: RateLimits, token: str) -> None:
        self._registry = registry
        self._rates = rates
        self._token = token.encode()

    @operation("getMetrics", Answer(200, "The figures.", media_type="text/plain"), security="metrics")
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Get the metrics of the service in Prometheus' text format.

        Programs on the service's host need no token, unless a proxy forwards for them.
        """
        if not is_local(req):
            self._admit(req)
        resp.content_type = CONTENT_TYPE_LATEST
        resp.data = generate_latest(self._registry)

    def _admit(self, req: falcon.Request) -> None:
        """Raise ApiError ``unauthorized`` unless a token is configured and the caller sent it."""
        sent = bearer(req)
        if sent is None:
            raise ApiError.unauthorized("send `Authorization: Bearer <http.metrics_token>`, or ask on the host itself")
        if not self._token or not hmac.compare_digest(sent.encode(), self._token):
            self._rates.of_failure(req)
            raise ApiError.unauthorized("the token is not http.metrics_token of the service's configuration")
