from __future__ import annotations

import pytest

from tests.api.world import Account, PipelinePath, World


def test_a_token_is_good_for_an_hour(world: World, pipeline: PipelinePath):
    build = pipeline.build()
    answered = build.get("/log-token")
    url = build.job().path + "/log"
    token = {"token": answered.json["token"]}

    assert answered.status_code == 200
    assert answered.json["expires_at"] == "2026-01-02T04:04:05.000000Z"
    assert answered.headers["Cache-Control"] == "no-store"
    world.clock.advance(3599)
    assert world.anonymous.simulate_get(url, params=token).status_code == 200
    world.clock.advance(1)
    expired = world.anonymous.simulate_get(url, params=token)
    assert expired.status_code == 401
    assert expired.json["error"]["code"] == "log_stream_unauthorized"


def test_a_token_is_for_every_job_of_its_build_and_no_other(world: World, pipeline: PipelinePath):
    one, two = pipeline.build(), pipeline.build()
    token = {"token": one.token()}

    assert world.anonymous.simulate_get(f"{one.job().path}/log", params=token).status_code == 200
    for path in (f"{two.job().path}/log", f"/v0/jobs/{two.job().uuid}/logs", f"{two.path}/jobs/{one.job().uuid}/log"):
        answered = world.anonymous.simulate_get(path, params=token)
        assert answered.status_code == 403, path
        assert answered.json["error"]["code"] == "log_stream_forbidden"


@pytest.mark.parametrize("token", ["", "nonsense", "A" * 54, "ci_" + "x" * 43])
def test_a_made_up_token_is_refused(world: World, pipeline: PipelinePath, token: str):
    job = pipeline.build().job()

    for path in (f"{job.path}/log", f"/v0/jobs/{job.uuid}/logs"):
        answered = world.anonymous.simulate_get(path, params={"token": token})
        assert answered.status_code == 401
        assert answered.json["error"]["code"] == "log_stream_unauthorized"


def test_a_token_with_one_character_changed_is_refused(world: World, pipeline: PipelinePath):
    build = pipeline.build()
    token = build.token()
    for position in range(len(token) - 1):
        world.clock.advance(1)  # more at once would be too many from one address
        other = "A" if token[position] != "A" else "B"
        changed = token[:position] + other + token[position + 1 :]
        answered = world.anonymous.simulate_get(f"{build.job().path}/log", params={"token": changed})
        assert answered.status_code == 401, position


def test_a_cursor_is_not_accepted_as_a_token(world: World, ada: Account, pipeline: PipelinePath):
    job = pipeline.build().job()
    pipeline.build()
    cursor = ada.client.simulate_get(f"{pipeline.path}/builds", params={"limit": "1"}).json["next_cursor"]

    assert world.anonymous.simulate_get(f"{job.path}/log", params={"token": cursor}).status_code == 401


def test_only_members_get_tokens(world: World, ada: Account, bob: Account):
    build = ada.pipeline(visibility="public").build()

    assert bob.client.simulate_get(f"{build.path}/log-token").status_code == 404
    assert world.anonymous.simulate_get(f"{build.path}/log-token").status_code == 401


def test_a_token_opens_logs_and_nothing_else(world: World, pipeline: PipelinePath):
    build = pipeline.build()
    token = build.token()

    assert world.anonymous.simulate_get(build.path, params={"token": token}).status_code == 401
    assert world.anonymous.simulate_get("/api/v0/user", headers={"Authorization": f"Bearer {token}"}).status_code == 401
