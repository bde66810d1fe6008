"""Health and metrics of the service: it responds, it takes work (wire-decisions.md, "Meta")."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

import falcon
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from api.engine import refuse_while_draining
from api.errors.catalog import ApiError
from api.middleware.authentication import bearer_token
from api.middleware.client_addresses import is_local
from api.openapi.operations import Answer, operation

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from api.engine import EngineInterface
    from api.middleware.rate_limits import RateLimits


class HealthResource:
    """``/healthz``, for load balancers: they send no new work to a service that is about to stop."""

    tells_nothing_stored = True
    """So it is answered beside others' changes, which wait for the disk."""

    def __init__(self, engine: EngineInterface) -> None:
        self._engine = engine

    # Not counted: a proxy may ask from the address of all its callers, and refusing costs more than answering.
    @operation(
        "health",
        Answer(200, "`ok`.", media_type="text/plain"),
        errors=("draining",),
        security="public",
        counted=False,
    )
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Check that the service accepts builds; 503 if it is about to stop."""
        refuse_while_draining(self._engine)
        resp.content_type = falcon.MEDIA_TEXT
        resp.text = "ok"


class MetricsResource:
    """``/metrics``, for programs on this host and for callers with the configured token."""

    def __init__(self, registry: CollectorRegistry, rates: RateLimits, token: str) -> None:
        self._registry = registry
        self._rates = rates
        self._token = token.encode()

    @operation("getMetrics", Answer(200, "The metrics.", media_type="text/plain"), security="metrics", tag="metrics")
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Get the metrics of the service in Prometheus' text format.

        Requests from the service's own host need no token, unless a proxy forwards them.
        """
        if not is_local(req):
            self._admit(req)
        resp.content_type = CONTENT_TYPE_LATEST
        resp.data = generate_latest(self._registry)

    def _admit(self, req: falcon.Request) -> None:
        """Raise ApiError ``unauthorized`` unless a token is configured and the caller sent it."""
        sent = bearer_token(req)
        if sent is None:
            raise ApiError.unauthorized(
                "send `Authorization: Bearer <http.metrics_token>`, or send the request from the service's host"
            )
        if not self._token or not hmac.compare_digest(sent.encode(), self._token):
            self._rates.limit_failures(req)
            raise ApiError.unauthorized("the token is not http.metrics_token of the configuration")
