"""The cached disks of an organization: seen by members, removed by admins."""

from __future__ import annotations

import pytest

from storage import NewCacheEntry, Role
from tests.api.console.browser import Browser
from tests.api.world import Account, PipelinePath, World

PAGE = "/ada-example-org/caches"
CLEAR = "ada-example-org/caches/demo/clear"


@pytest.fixture
def cached(pipeline: PipelinePath) -> None:
    """A disk that the pipeline's first build left."""
    storage, job = pipeline.account.world.storage, pipeline.build().job().stored
    storage.snapshots.add("disk", job.id, "sandbox")
    assert storage.cache.store(NewCacheEntry("name", 1, "k" * 40, "debian:12", "disk"))


@pytest.mark.usefixtures("cached")
def test_an_admin_empties_the_cache_of_a_pipeline(ada: Account):
    browser = Browser.of(ada)
    shown = browser.get(PAGE).text
    assert "not measured yet" in shown
    assert "k" * 16 in shown
    (listed,) = ada.client.simulate_get(f"{ada.path}/caches").json["data"]
    assert (listed["pipeline"], listed["build_number"], listed["hits"]) == ("demo", 1, 0)
    assert browser.send(PAGE, CLEAR).headers["Location"].endswith(PAGE)
    assert "Nothing is cached" in browser.get(PAGE).text


@pytest.mark.usefixtures("cached")
def test_members_look_and_others_see_nothing(world: World, ada: Account, bob: Account):
    bob.pipeline()
    assert Browser.of(bob).get(PAGE).status_code == 404
    assert "demo" not in Browser.of(bob).get("/bob-example-org/caches").text
    bob.join(ada, Role.MEMBER)
    browser = Browser.of(bob)
    assert CLEAR not in browser.get(PAGE).text
    token = browser.fields("/account", "account/profile")["form_token"]
    assert browser.post(f"/{CLEAR}", {"form_token": token}).status_code == 403
    assert len(world.storage.cache.entries("ada-example-org")) == 1
