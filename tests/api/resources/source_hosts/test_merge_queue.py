"""The operations of a merge queue: adding, the list with its reasons, and removing."""

from __future__ import annotations

from typing import Any

from storage import GIT, NewBuild, NewOrigin, NewPipeline, OriginEvent, Storage
from tests.api.console.browser import Browser
from tests.api.world import Account
from tests.records import new_job

BRANCH = {"branch": "topic", "target": "main"}


def queue_of(storage: Storage, account: Account) -> str:
    """Connect a repository; return the path of its queue."""
    made = storage.repositories.connect(account.org_id, "https://git.example.org/acme/web.git", "acme/web", 60)
    assert made.provider == GIT
    return f"{account.path}/repos/{made.uuid}/merge-queue"


def add(account: Account, path: str, **body: Any) -> Any:
    return account.client.simulate_post(path, json=body)


def test_one_list_has_places_and_reasons(ada: Account, storage: Storage):
    path = queue_of(storage, ada)
    first, other, second = (
        add(ada, path, branch=branch, target=target).json
        for branch, target in (("a", "main"), ("b", "release"), ("c", "main"))
    )
    assert [each["place"] for each in (first, other, second)] == [1, 1, 2]
    assert first["reason"] == "it waits for its turn"
    assert ada.client.simulate_delete(f"{path}/{first['id']}").status_code == 204
    listed = ada.client.simulate_get(path).json["data"]
    assert [(each["branch"], each["place"], each["state"]) for each in listed] == [
        ("b", 1, "queued"),
        ("c", 1, "queued"),
        ("a", None, "left"),
    ]
    assert listed[-1]["reason"] == "ada@example.org removed it"
    page = (
        Browser.of(ada).get(path.replace("/api/v0/organizations", "").replace("/repos/", "/repositories/")[:-12]).text
    )
    assert "left: ada@example.org removed it" in page


def test_the_same_twice_and_neither_nor_are_refused(ada: Account, storage: Storage):
    path = queue_of(storage, ada)
    assert add(ada, path, **BRANCH).status_code == 201
    again = add(ada, path, **BRANCH)
    assert (again.status_code, again.json["error"]["code"]) == (409, "already_in_merge_queue")
    for body in ({}, {"branch": "a", "pull_request": 7}):
        assert add(ada, path, **body).json["error"]["code"] == "invalid_body"


def test_removing_cancels_the_builds_of_the_entry(ada: Account, storage: Storage):
    path = queue_of(storage, ada)
    entry = storage.merge_queues.by_uuid(1, add(ada, path, **BRANCH).json["id"])
    assert entry is not None
    pipeline = storage.pipelines.create(ada.org_id, NewPipeline("ci", "CI", "r", "main"))
    new = NewBuild("merge-queue/main", "c0ffee", base_commit="ba5e", merge_commit="4e7d")
    build = storage.builds.create(pipeline, new, [new_job()])
    storage.build_origins.record(build.id, NewOrigin(1, OriginEvent.PUSH, entry.ref), reports=False)
    storage.merge_queues.build(entry, "ba5e", "4e7d")
    assert ada.client.simulate_get(path).json["data"][0]["builds"] == [build.name]
    ada.client.simulate_delete(f"{path}/{entry.uuid}")
    canceled = storage.builds.get(build.id)
    assert canceled is not None
    assert canceled.cancel_requested
