"""Health of the service: it responds, it takes work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import falcon

from api.bodies import answer
from api.engine import refuse_while_draining
from api.openapi.operations import Answer, operation
from storage import JsonModel

if TYPE_CHECKING:
    from api.engine import EngineInterface


class PingRecord(JsonModel):
    """The response to a ping."""

    status: str = "ok"


class PingResource:
    """``/api/v0/ping``."""

    @operation("ping", Answer(200, "The API responds.", PingRecord), security="public")
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Check that the API responds."""
        answer(resp, PingRecord())


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
