"""Health of the service: whether it responds, and whether it takes work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import falcon
from pydantic import BaseModel

from api.bodies import answer
from api.errors import ApiError
from api.operations import Answer, operation

if TYPE_CHECKING:
    from api.engine import Engine

__all__ = ["Health", "Ping", "PingRecord", "refuse_while_draining"]

_RETRY_SECONDS = "5"


class PingRecord(BaseModel):
    """The answer to a ping."""

    status: str = "ok"


class Ping:
    """``/api/v0/ping``."""

    @operation("ping", Answer(200, "The API answers.", PingRecord), security="public")
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Check that the API responds."""
        answer(resp, PingRecord())


class Health:
    """``/healthz``, for load balancers: they send no new work to a service that is about to stop."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @operation("health", Answer(200, "`ok`.", media_type="text/plain"), errors=("draining",), security="public")
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Check that the service takes work; 503 if it is about to stop."""
        refuse_while_draining(self._engine)
        resp.content_type = falcon.MEDIA_TEXT
        resp.text = "ok"


def refuse_while_draining(engine: Engine) -> None:
    """Raise ApiError ``draining`` if the service takes no new builds."""
    if engine.draining:
        raise ApiError("draining", "the service is draining: it restarts soon", headers={"Retry-After": _RETRY_SECONDS})
