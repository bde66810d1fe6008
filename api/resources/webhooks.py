"""Deliveries of source hosts (wire-decisions.md, "Source hosts")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from actors.source_hosts import DeliveryInvalid, DeliveryUnsigned, HostNotConfigured
from api.bodies import answer, check_values
from api.errors.catalog import ApiError
from api.openapi.operations import Answer, Parameter, operation
from api.resources.push_answers import WAIT, wait_seconds
from storage import GIT, JsonModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    import falcon

    from actors.source_hosts import SourceHost
    from api.engine import EngineInterface
    from api.middleware.rate_limits import RateLimits
    from api.resources.push_answers import PushAnswers
    from storage import Storage


class DeliveryResponse(JsonModel):
    """The answer to a delivery: it is processed soon, or was received before."""

    status: Literal["accepted", "duplicate"]


class WebhookResource:
    """``/webhooks/{provider}``, which source hosts call, with proof by a signature or token."""

    def __init__(
        self,
        storage: Storage,
        engine: EngineInterface,
        rates: RateLimits,
        hosts: Mapping[str, SourceHost],
        answers: PushAnswers,
    ) -> None:
        self._storage = storage
        self._engine = engine
        self._rates = rates
        self._hosts = hosts
        self._answers = answers

    @operation(
        "receiveDelivery",
        Answer(202, "The delivery is kept, and processed soon.", DeliveryResponse),
        Answer(202, "With `wait`: what the push started so far, in lines for people.", media_type="text/plain"),
        Answer(200, "This delivery was received before.", DeliveryResponse),
        Answer(200, "With `wait`: what that push started so far.", media_type="text/plain"),
        errors=(
            "body_too_large",
            "invalid_wait",
            "delivery_id_invalid",
            "delivery_event_missing",
            "delivery_signature_invalid",
            "malformed_json",
            "source_host_unknown",
            "source_host_not_configured",
            "unauthorized",
            "rate_limited",
        ),
        parameters=(
            WAIT,
            Parameter(
                "X-Delivery-Id",
                "For `git`: the caller's name for this delivery; one that comes again has no effect.",
                {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,100}$", "examples": ["7d1c1d86-8f4b-4f0b"]},
                "header",
            ),
        ),
        security="public",
        counted=False,
        changes=False,
    )
    def on_post(self, req: falcon.Request, resp: falcon.Response, provider: str) -> None:
        """Report an event at a source host, in the host's own form.

        For `git` it needs the repository's token as bearer, a name of its own in `X-Delivery-Id`, and what git gives
        to a `post-receive` hook: a line `OLD NEW REF` for each branch or tag.
        """
        host = self._hosts.get(provider)
        if host is None:
            raise ApiError("source_host_unknown", f'there is no source host "{provider}"')
        seconds = wait_seconds(req.get_param("wait")) if provider == GIT else None
        body = req.bounded_stream.read(host.max_bytes + 1)
        if len(body) > host.max_bytes:
            raise ApiError("body_too_large", f"the body has more than {host.max_bytes} bytes")
        check_values(body)
        try:
            received = host.receive(req.headers, body)
        except HostNotConfigured as error:
            raise ApiError("source_host_not_configured", str(error)) from None
        except DeliveryInvalid as error:
            raise ApiError(error.code, str(error)) from None
        except DeliveryUnsigned as error:
            self._rates.limit_failures(req)
            if provider == GIT:
                raise ApiError.unauthorized(str(error)) from None
            raise ApiError("delivery_signature_invalid", str(error)) from None
        accepted = self._storage.deliveries.receive(
            provider, received.event, received.delivery_id, received.repository, body
        )
        if accepted:
            self._engine.deliveries_added()
        status = 202 if accepted else 200
        stored = None if seconds is None else self._storage.deliveries.known(provider, received.delivery_id)
        if seconds is not None and stored is not None and received.repository is not None:
            resp.status, resp.content_type = status, "text/plain; charset=utf-8"
            resp.text = self._answers.text(req, received.repository, stored, host.events(stored), seconds)
            return
        answer(resp, DeliveryResponse(status="accepted" if accepted else "duplicate"), status=status)
