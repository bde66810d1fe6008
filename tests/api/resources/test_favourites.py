"""Favourites of a caller."""

from __future__ import annotations

from tests.api.world import Account, PipelinePath


def test_favourites_come_and_go(ada: Account, pipeline: PipelinePath):
    path, listed = f"{pipeline.path}/favourite", "/api/v0/user/favourites"
    for _ in range(2):
        assert ada.client.simulate_put(path).status_code == 204
    assert ada.client.simulate_get(listed).json == {
        "favourites": [{"org": "ada-example-org", "pipeline_slug": "demo", "name": "demo"}]
    }
    for _ in range(2):
        assert ada.client.simulate_delete(path).status_code == 204
    assert ada.client.simulate_get(listed).json == {"favourites": []}


def test_a_stranger_has_no_favourite_here(bob: Account, pipeline: PipelinePath):
    answered = bob.client.simulate_put(f"{pipeline.path}/favourite")
    assert (answered.status_code, answered.json["error"]["code"]) == (404, "organization_not_found")
