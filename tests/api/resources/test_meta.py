from __future__ import annotations

from tests.api.world import World


def test_ping_answers_anyone(world: World):
    answered = world.anonymous.simulate_get("/api/v0/ping")

    assert (answered.status_code, answered.json) == (200, {"status": "ok"})


def test_health_is_ok_until_the_service_drains(world: World):
    answered = world.anonymous.simulate_get("/healthz")
    assert (answered.status_code, answered.text) == (200, "ok")
    world.engine.draining = True
    answered = world.anonymous.simulate_get("/healthz")
    assert answered.status_code == 503
    assert answered.json["error"]["code"] == "draining"
    assert world.anonymous.simulate_get("/api/v0/ping").status_code == 200
