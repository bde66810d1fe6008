"""The bodies of webhooks, in the form of Standard Webhooks: type, timestamp, data. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from storage import Build

TEST_EVENT = "notification.test"
"""The event of a delivery that somebody asked for, to try the endpoint."""


def webhook_body(event: str, build: Build, document: Mapping[str, object], page: str, at: datetime) -> str:
    """Return the body of a build's event; ``document`` is the build as the API shows it."""
    data = {
        "organization": build.organization_slug,
        "pipeline": build.pipeline_slug,
        "url": page,
        "build": document,
    }
    return _body(event, at, data)


def webhook_test(organization: str, pipeline: str, at: datetime) -> str:
    """Return the body of a test, without a build."""
    return _body(TEST_EVENT, at, {"organization": organization, "pipeline": pipeline})


def _body(event: str, at: datetime, data: Mapping[str, object]) -> str:
    stamp = at.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return json.dumps({"type": event, "timestamp": stamp, "data": data})
