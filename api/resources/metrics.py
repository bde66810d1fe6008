"""``GET /metrics``: the state of the service for Prometheus (wire-decisions.md, "Meta")."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from api.errors.catalog import ApiError
from api.http.client_addresses import is_local
from api.middleware.authentication import bearer_token
from api.openapi.operations import Answer, operation

if TYPE_CHECKING:
    import falcon
    from prometheus_client import CollectorRegistry

    from api.middleware.rate_limits import RateLimits


class MetricsResource:
    """``/metrics``, for programs on this host and for callers with the configured token."""

    def __init__(self, registry: CollectorRegistry, rates: RateLimits, token: str) -> None:
        self._registry = registry
        self._rates = rates
        self._token = token.encode()

    @operation("getMetrics", Answer(200, "The metrics.", media_type="text/plain"), security="metrics")
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
