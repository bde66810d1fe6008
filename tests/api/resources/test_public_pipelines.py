"""The endpoints of a public pipeline that can be read without a token, and no others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from falcon import testing

from storage import BuildState, JobState
from tests.api.world import Account, World

NO_TERMINAL = "0b9d6f0e-3f0c-4a53-9d0a-5f5f9d6c1d2e"
READABLE = {
    "listBuilds",
    "getBuild",
    "listJobs",
    "getJob",
    "getJobLog",
    "streamJobLog",
    "getRenderLog",
    "getServiceLog",
    "getJobOutputs",
    "listBuildSummaries",
    "listBuildAnnotations",
    "streamServiceLog",
}

NOTHING_THERE = {"render_log_not_found", "service_not_found"}


@pytest.fixture
def places(ada: Account) -> dict[str, str]:
    """Values for the path parameters of a public pipeline with a finished build."""
    build = ada.pipeline("open", visibility="public").build()
    job = build.job()
    storage = ada.world.storage
    assert storage.jobs.move(job.stored.id, JobState.SCHEDULED, JobState.CANCELED)
    assert storage.builds.move(build.stored.id, BuildState.SCHEDULED, BuildState.CANCELED)
    ids = dict.fromkeys(("job_id", "id", "delivery", "proof", "quarantined", "preview"), job.uuid) | {
        "terminal": NO_TERMINAL
    }
    return {"org": ada.org, "pipeline": "open", "number": "1", "name": "TOKEN", "service": "db", **ids}


def operations(world: World) -> Iterator[tuple[str, str, str]]:
    """Yield path, method and id of every operation on a pipeline or below it, but its badges.

    Those are never refused: see `test_build_status.py`.
    """
    for path, methods in world.anonymous.simulate_get("/api/v0/openapi.json").json["paths"].items():
        for method, described in methods.items():
            if path.startswith("/badges/"):
                continue
            if "{pipeline}/" in path or path.endswith("{pipeline}") or "{job_id}" in path:
                yield path, method.upper(), described["operationId"]


def ask(client: testing.TestClient, method: str, path: str) -> tuple[int, str | None]:
    answered = client.simulate_request(method, path)
    is_error = answered.status_code >= 400
    return answered.status_code, answered.json["error"]["code"] if is_error else None


def test_nothing_else_is_read_without_a_token(world: World, places: dict[str, str]):
    seen = {}
    for path, method, name in operations(world):
        seen[name] = ask(world.anonymous, method, path.format(**places))
    assert {name for name, (status, _) in seen.items() if status != 401} == READABLE
    assert {code for name, (_, code) in seen.items() if name in READABLE} == {None, *NOTHING_THERE}
    assert len(seen) > len(READABLE)


def test_outsiders_read_the_same_and_find_no_organization(world: World, bob: Account, places: dict[str, str]):
    """Everything that is not public is a 404 of the organization."""

    for path, method, name in operations(world):
        status, code = ask(bob.client, method, path.format(**places))
        if name in READABLE:
            assert (status, code) == (200, None) or code in NOTHING_THERE, name
        else:
            assert (status, code) == (404, "organization_not_found"), name


def test_of_a_private_pipeline_nothing_is_read_without_a_token(world: World, ada: Account, places: dict[str, str]):
    ada.client.simulate_patch(f"{ada.path}/pipelines/open", json={"visibility": "private"})
    for path, method, name in operations(world):
        assert ask(world.anonymous, method, path.format(**places))[0] == 401, name


def test_of_public_artifacts_only_the_latest_are_read(world: World, ada: Account, bob: Account, places: dict[str, str]):
    """Also of a private pipeline; nothing else of it is."""
    published = {"listLatestArtifacts", "downloadLatestArtifact"}
    ada.client.simulate_patch(f"{ada.path}/pipelines/open", json={"visibility": "private", "artifacts_public": True})
    for client, refused in ((world.anonymous, 401), (bob.client, 404)):
        seen = {name: ask(client, method, path.format(**places)) for path, method, name in operations(world)}
        assert {seen.pop(name) for name in published} == {(404, "build_not_found")}
        assert {status for status, _ in seen.values()} == {refused}
        assert "build_not_found" not in {code for _, code in seen.values()}
