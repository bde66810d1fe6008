from __future__ import annotations

from typing import Any

import pytest
from falcon import testing
from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.parser import text_string_to_metric_families

from api import HttpSettings
from storage.files import DATABASE
from tests.api.world import Account, PipelinePath, World
from tests.damage import damage_page

TOKEN = "a-token-for-scraping"
ELSEWHERE = "203.0.113.7"


@pytest.fixture
def settings() -> HttpSettings:
    return HttpSettings(metrics_token=TOKEN)


def scraped(world: World) -> dict[tuple[str, ...], float]:
    """Return the samples by name and label values."""
    answered = world.anonymous.simulate_get("/metrics")
    assert answered.status_code == 200, answered.text
    families = text_string_to_metric_families(answered.text)
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


def ask(world: World, peer: str, **options: Any) -> testing.Result:
    return world.anonymous.simulate_get("/metrics", extras={"REMOTE_ADDR": peer}, **options)


def test_the_queue_builds_and_leases_are_counted(world: World, pipeline: PipelinePath):
    pipeline.build()
    pipeline.build().job().assign("a-lease")
    found = scraped(world)
    assert found["ci_daemon_database_damaged",] == 0
    assert found["ci_daemon_queued_jobs",] == 1
    assert found["ci_daemon_unfinished_builds", "scheduled"] == 2
    assert found["ci_daemon_unfinished_builds", "running"] == 0
    assert (found["ci_daemon_leases", "active"], found["ci_daemon_leases", "creating"]) == (1, 0)
    assert found["ci_daemon_disk_free_bytes",] > 0
    assert found["ci_daemon_database_bytes",] > 4096
    assert ("ci_daemon_snapshots",) in found
    assert ("python_gc_collections_total", "0") in found


def test_a_damaged_page_leaves_out_what_is_behind_it(world: World):
    """Other metrics stay, so that the service does not seem to be down."""
    damage_page(world.storage.directory / DATABASE, "snapshots")
    world.storage.integrity.look_if_due(lambda _seconds: False)
    found = scraped(world)
    assert found["ci_daemon_database_damaged",] == 1
    assert ("ci_daemon_queued_jobs",) in found
    assert ("ci_daemon_snapshots",) not in found
    assert ("python_gc_collections_total", "0") in found


def test_vms_on_a_cluster_are_counted_by_member(world: World):
    leases = world.storage.leases
    for vm_id, member in (("one", "m1"), ("two", "m1"), ("three", "m2"), ("here", None)):
        leases.parked(leases.reserve_parked(vm_id, "incus").id, member)
    found = scraped(world)
    counted = {key[1:]: value for key, value in found.items() if key[0] == "ci_daemon_member_leases"}
    assert counted == {("m1",): 2, ("m2",): 1}


def test_switches_are_gauges(world: World):
    assert (scraped(world)["ci_daemon_drained",], scraped(world)["ci_daemon_draining",]) == (0, 0)
    world.storage.switches.drain()
    world.engine.draining = True
    assert (scraped(world)["ci_daemon_drained",], scraped(world)["ci_daemon_draining",]) == (1, 1)


def test_requests_are_counted_by_route_not_by_path(world: World, ada: Account):
    """Callers cannot make up methods or labels."""

    for path in (f"{ada.path}/pipelines/none", f"{ada.path}/pipelines/neither", "/made/up", "/up/made"):
        ada.client.simulate_get(path)
    world.anonymous.simulate_request("BREW", "/healthz")
    world.anonymous.simulate_request("PROPFIND", "/healthz")
    found = scraped(world)
    route = "/api/v0/organizations/{org}/pipelines/{pipeline}"
    assert found["ci_daemon_http_requests_total", "GET", route, "404"] == 2
    assert found["ci_daemon_http_request_seconds_count", "GET", route] == 2
    assert found["ci_daemon_http_requests_total", "GET", "-", "404"] == 2
    assert not [labels for labels in found if {"BREW", "PROPFIND", "/made/up"} & set(labels)]


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_this_host_needs_no_token(world: World, peer: str):
    answered = ask(world, peer)
    assert answered.status_code == 200
    assert answered.headers["Content-Type"] == CONTENT_TYPE_LATEST


def test_head_has_no_body(world: World):
    answered = world.anonymous.simulate_head("/metrics")
    assert (answered.status_code, answered.text) == (200, "")


@pytest.mark.parametrize("peer", [ELSEWHERE, "::ffff:203.0.113.7", "10.0.0.1", ""])
def test_elsewhere_the_token_is_needed(world: World, ada: Account, peer: str):
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Bearer {ada.token}"}):
        refused = ask(world, peer, headers=headers)
        assert (refused.status_code, refused.json["error"]["code"]) == (401, "unauthorized")
        assert refused.headers["WWW-Authenticate"] == "Bearer"
    assert ask(world, peer, headers={"Authorization": f"bearer {TOKEN}"}).status_code == 200


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"])
def test_a_proxy_on_this_host_does_not_lend_its_address(world: World, header: str):
    assert ask(world, "127.0.0.1", headers={header: "127.0.0.1"}).status_code == 401


def test_a_remote_host_cannot_claim_to_be_local(world: World):
    assert ask(world, ELSEWHERE, headers={"X-Forwarded-For": "127.0.0.1"}).status_code == 401


class TestWithoutAToken:
    @pytest.fixture
    def settings(self) -> HttpSettings:
        return HttpSettings()

    @pytest.mark.parametrize("authorization", ["Bearer ", "Bearer", "Bearer x", "Basic eDp5", "Bearer \xe9"])
    def test_no_token_is_good(self, world: World, authorization: str):
        assert ask(world, ELSEWHERE, headers={"Authorization": authorization}).status_code == 401


@pytest.mark.parametrize("token", ["short", "with a space in its middle", "é" * 20])
def test_a_token_that_cannot_be_sent_or_is_guessed_is_refused(token: str):
    with pytest.raises(ValueError, match="metrics_token must be 16 or more"):
        HttpSettings(metrics_token=token)
    assert TOKEN not in repr(HttpSettings(metrics_token=TOKEN))
