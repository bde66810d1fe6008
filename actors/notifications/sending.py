"""One attempt at a delivery: signed as Standard Webhooks says, sent to a checked address, and noted."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import httpcore

from actors.outgoing import AddressRefused, checked_addresses, usual_context
from actors.timed_http import Deadline, TimedBackend
from storage import DatabaseUnavailable, EndpointAnswer, SealBroken, error_reason

if TYPE_CHECKING:
    import ssl
    import threading
    from collections.abc import Callable, Mapping

    from actors.parts import Parts
    from actors.settings import NotificationSettings
    from storage import Endpoint, NotificationDelivery


_KEPT_BYTES = 2048
_MOST_REASON = 200
_SUCCESS = range(200, 300)
_REDIRECTION = range(300, 400)
_HEADERS = {
    "User-Agent": "ci-daemon",
    "Content-Type": "application/json",
    "Accept-Encoding": "identity",
    "Connection": "close",
}
_log = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0
_NETWORKS_SETTING = "notifications.networks"


class EndpointClient:
    """Sends one request for each delivery, over a connection of its own. It blocks. Safe in any thread.

    A name is resolved once, its addresses are checked, and the connection goes to one of those. Redirects are not
    followed, the proxies of the environment not used, and of the answer only the beginning is read.
    """

    def __init__(self, ssl_context: Callable[[], ssl.SSLContext] | None = None) -> None:
        """Store what makes the context of encrypted connections; by default it is that of httpx."""
        self._ssl_context = ssl_context or usual_context

    def post(self, settings: NotificationSettings, url: str, body: bytes, headers: Mapping[str, str]) -> EndpointAnswer:
        """Send a body and return the answer, or why there is none."""
        began = time.monotonic()
        status, text = None, b""
        try:
            status, text = self._exchange(settings, url, body, {**_HEADERS, **headers})
        except AddressRefused as error:
            reason: str | None = str(error)
        except httpcore.TimeoutException:
            reason = f"no answer within {settings.timeout:g} s"
        except (httpcore.NetworkError, httpcore.ProtocolError, OSError, ValueError) as error:
            reason = f"no connection: {error_reason(error)}"
        else:
            reason = _refusal(status)
        duration = round((time.monotonic() - began) * 1000)
        return EndpointAnswer(status, _printable(text), duration, None if reason is None else reason[:_MOST_REASON])

    def _exchange(
        self, settings: NotificationSettings, url: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        secure = url.startswith("https:")

        def resolve(host: str, port: int) -> list[str]:
            return checked_addresses(settings.allowed_networks, host, port, secure=secure, setting=_NETWORKS_SETTING)

        backend = TimedBackend(Deadline(settings.timeout), resolve)
        context = self._ssl_context() if secure else None
        content = bytearray()
        with (
            httpcore.ConnectionPool(ssl_context=context, network_backend=backend) as pool,
            pool.stream("POST", url, headers=list(headers.items()), content=body) as response,
        ):
            for chunk in response.iter_stream():
                content += chunk
                if len(content) >= _KEPT_BYTES:
                    break
            return response.status, bytes(content[:_KEPT_BYTES])


def _refusal(status: int) -> str | None:
    if status in _SUCCESS:
        return None
    hint = ", and redirects are not followed" if status in _REDIRECTION else ""
    return f"the endpoint answers {status}{hint}"


def _printable(text: bytes) -> str:
    return "".join(each if each.isprintable() or each == "\n" else " " for each in text.decode(errors="replace"))


class DeliverySender:
    """Sends deliveries. It blocks. Safe in any thread."""

    def __init__(self, parts: Parts, *, client: EndpointClient, stopping: threading.Event) -> None:
        """Store the parts; ``stopping`` is set when the service stops."""
        self._storage = parts.storage
        self._clock = parts.clock
        self._live_settings = parts.live_settings
        self._metrics = parts.metrics
        self._client = client
        self._stopping = stopping

    def send(self, delivery: NotificationDelivery) -> None:
        """Make an attempt at a delivery and note its result, unless the notification was deleted."""
        try:
            endpoint = self._storage.notifications.endpoint(delivery.notification_id)
        except SealBroken as error:
            self.note(delivery, EndpointAnswer(None, "", 0, str(error)))
            return
        if endpoint is None:
            return
        body = delivery.body or ""
        settings = self._live_settings.now.notifications
        self._storage.await_disk()
        answer = self._client.post(settings, endpoint.url, body.encode(), self._signed(delivery.uuid, body, endpoint))
        self.note(delivery, answer)

    def note(self, delivery: NotificationDelivery, answer: EndpointAnswer) -> None:
        """Note an attempt, however long the database is unavailable: else it would be made again."""
        enabled: bool | None = None
        while enabled is None:
            try:
                enabled = self._storage.notification_deliveries.note(delivery, answer)
            except DatabaseUnavailable as error:
                _log.error("a notification was sent, which cannot be noted yet: %s", error)
                if self._stopping.wait(_RETRY_SECONDS):
                    return
        self._metrics.notified("delivered" if answer.error is None else "failed")
        if answer.error is not None:
            _log.warning("the delivery %s failed: %s", delivery.uuid, answer.error)
        if not enabled:
            _log.error("a notification is disabled, because its deliveries failed too long: see `ci-daemon status`")

    def _signed(self, uuid: str, body: str, endpoint: Endpoint) -> dict[str, str]:
        """Return the headers that prove a delivery, signed with each secret; none without a secret."""
        from standardwebhooks.webhooks import Webhook  # noqa: PLC0415 - imported only where webhooks are used

        if not endpoint.secrets:
            return {}
        now = self._clock.now()
        signatures = (Webhook(secret).sign(uuid, now, body) for secret in endpoint.secrets)
        return {
            "webhook-id": uuid,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": " ".join(signatures),
        }
