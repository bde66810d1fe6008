from __future__ import annotations

import logging
from typing import Any

import pytest

from api import RequestIdFilter
from tests.api.world import Account, PipelinePath, World

USER = "/api/v0/user"


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, "api")
    caplog.handler.addFilter(RequestIdFilter())
    return caplog


def lines(log: pytest.LogCaptureFixture) -> list[Any]:
    return [record for record in log.records if record.name == "api.middleware.access_log"]


def test_a_line_has_the_request_and_its_status(pipeline: PipelinePath, log: pytest.LogCaptureFixture):
    log.clear()
    given = "request-of-a-test-0001"
    path = f"{pipeline.path}/builds"
    pipeline.account.client.simulate_post(path, json={}, headers={"X-Request-Id": given})

    (line,) = lines(log)
    assert line.levelno == logging.INFO
    assert (line.method, line.status) == ("POST", 422)
    assert line.route == "/api/v0/organizations/{org}/pipelines/{pipeline}/builds"
    assert line.organization == pipeline.account.org
    assert line.request_id == given
    assert line.ms >= 0


def test_no_line_holds_a_token(world: World, pipeline: PipelinePath, log: pytest.LogCaptureFixture):
    build = pipeline.build()
    token = build.token()
    world.anonymous.simulate_get(f"{build.job().path}/log", params={"token": token})
    world.anonymous.simulate_get(f"/api/v0/nothing/{token}")
    world.anonymous.simulate_get(f"/api/v0/billing/balance/{token}")
    signed_in = pipeline.account.signed_in()
    made = signed_in.simulate_post("/api/v0/user/api-tokens", json={"description": "new"}).json["token"]
    signed_in.simulate_post("/api/v0/auth/cli/transfer", json={"nonce": "n" * 20})
    claimed = world.anonymous.simulate_post("/api/v0/auth/cli/claim", json={"nonce": "n" * 20}).json["token"]

    written = repr([vars(record) for record in log.records])
    assert len(lines(log)) >= 6
    for secret in (token, made, claimed, pipeline.account.token, "n" * 20):
        assert secret not in written


def test_reads_are_logged_for_debugging_only(world: World, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "api")
    world.anonymous.simulate_get(USER)
    assert not caplog.records
    caplog.set_level(logging.DEBUG, "api")
    world.anonymous.simulate_get(USER)
    assert [line.status for line in lines(caplog)] == [401]


def test_what_has_no_route_or_no_organization_is_logged_without(
    world: World, ada: Account, log: pytest.LogCaptureFixture
):
    log.clear()
    world.anonymous.simulate_request("PUT", "/api/v0/x%0Ay")
    ada.client.simulate_patch(USER, json={"name": "Ada"})
    ada.client.simulate_post("/api/v0/organizations/No%0Aslug/pipelines", json={})

    assert [(line.method, line.route, line.status, line.organization) for line in lines(log)] == [
        ("PUT", "-", 404, "-"),
        ("PATCH", USER, 200, "-"),
        ("POST", "/api/v0/organizations/{org}/pipelines", 404, "-"),
    ]
