"""Reads all that one account may read through the API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from falcon import testing

from api import HttpSettings, Parts, RateLimitSettings, create_app
from storage import Storage
from tests.clock import ManualClock
from tests.fake_engine import FakeEngine

_UNLIMITED = RateLimitSettings(address_per_minute=10**6, account_per_minute=10**6, failures_per_minute=10**6)
_PAST = "from=2026-01-01T00:00:00Z&to=2026-02-01T00:00:00Z"

Read = dict[str, tuple[int, str]]


def everything_read(storage: Storage, clock: ManualClock, token: str) -> Read:
    """Return status and body of every answer, by path."""
    reader = _Reader(storage, clock, token)
    reader.get("/api/v0/user")
    reader.get("/api/v0/user/api-tokens")
    for organization in list(reader.pages("/api/v0/organizations")):
        reader.organization(organization["slug"])
    return reader.read


class _Reader:
    def __init__(self, storage: Storage, clock: ManualClock, token: str) -> None:
        app = create_app(
            storage, FakeEngine(storage, clock), HttpSettings(), Parts(rate_limits=_UNLIMITED, clock=clock)
        )
        self._client = testing.TestClient(
            app, headers={"Authorization": f"Bearer {token}", "X-Request-Id": "the-same-in-every-answer"}
        )
        self.read: Read = {}

    def get(self, path: str) -> Any:
        answered = self._client.simulate_get(path)
        assert answered.status_code < 500, f"{path}: {answered.text}"
        self.read[path] = answered.status_code, answered.text
        return answered.json if "json" in answered.headers.get("content-type", "") else {}

    def pages(self, path: str) -> Iterator[Any]:
        page = self.get(path)
        while page:
            yield from page.get("data", ())
            following = page.get("next_cursor")
            page = self.get(f"{path}?cursor={following}") if following else None

    def organization(self, org: str) -> None:
        base = f"/api/v0/organizations/{org}"
        for path in (base, f"{base}/members", f"{base}/invites", f"{base}/secrets", f"/api/v0/billing/balance/{org}"):
            self.get(path)
        for part in ("", "/series", "/breakdown"):
            self.get(f"/api/v0/billing/usage/{org}{part}?{_PAST}")
        list(self.pages(f"/api/v0/billing/transactions/{org}"))
        for pipeline in list(self.pages(f"{base}/pipelines")):
            at = f"{base}/pipelines/{pipeline['slug']}"
            self.get(at)
            self.get(f"{at}/secrets")
            for build in list(self.pages(f"{at}/builds")):
                self.build(f"{at}/builds/{build['number']}")

    def build(self, path: str) -> None:
        self.get(path)
        self.get(f"{path}/render-log")
        for artifact in list(self.pages(f"{path}/artifacts")):
            self.get(f"{path}/artifacts/{artifact['id']}/download")
        for job in self.get(f"{path}/jobs")["data"]:
            for below in ("", "/log", "/artifacts"):
                self.get(f"{path}/jobs/{job['id']}{below}")
