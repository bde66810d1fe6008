"""One attempt at a delivery: signed as Standard Webhooks says, sent, and noted."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from storage import DatabaseUnavailable, EndpointAnswer, SealBroken

if TYPE_CHECKING:
    import threading

    from actors.engine_settings import LiveSettings
    from actors.metrics import EngineMetrics
    from actors.notifications.endpoint_client import EndpointClient
    from storage import Clock, Endpoint, NotificationDelivery, Storage

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0


class DeliverySender:
    """Sends deliveries. It blocks. Safe in any thread."""

    def __init__(
        self,
        *,
        storage: Storage,
        clock: Clock,
        live_settings: LiveSettings,
        metrics: EngineMetrics,
        client: EndpointClient,
        stopping: threading.Event,
    ) -> None:
        """Store the parts; ``stopping`` is set when the service stops."""
        self._storage = storage
        self._clock = clock
        self._live_settings = live_settings
        self._metrics = metrics
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
