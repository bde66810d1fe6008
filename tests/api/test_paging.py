from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.api.world import Account, PipelinePath, World


def pages(account: Account, path: str, limit: int) -> Iterator[list[dict[str, object]]]:
    cursor: str | None = None
    while True:
        params = {"limit": str(limit)} | ({} if cursor is None else {"cursor": cursor})
        answered = account.client.simulate_get(path, params=params)
        assert answered.status_code == 200, answered.text
        assert set(answered.json) == {"data", "next_cursor"}
        yield answered.json["data"]
        cursor = answered.json["next_cursor"]
        if cursor is None:
            return


def test_pages_hold_every_row_once(ada: Account, pipeline: PipelinePath):
    for _ in range(7):
        pipeline.build()

    sizes = [[row["number"] for row in page] for page in pages(ada, f"{pipeline.path}/builds", 3)]

    assert sizes == [[7, 6, 5], [4, 3, 2], [1]]


def test_a_full_last_page_is_the_last(ada: Account, pipeline: PipelinePath):
    for _ in range(4):
        pipeline.build()

    assert [len(page) for page in pages(ada, f"{pipeline.path}/builds", 2)] == [2, 2]


def test_rows_that_come_meanwhile_neither_repeat_nor_hide_others(ada: Account, pipeline: PipelinePath):
    for _ in range(4):
        pipeline.build()
    seen = []
    for page in pages(ada, f"{pipeline.path}/builds", 2):
        seen += [row["number"] for row in page]
        pipeline.build()

    assert seen == [4, 3, 2, 1]


def test_every_list_is_paged(ada: Account, pipeline: PipelinePath):
    ada.client.simulate_post("/api/v0/organizations", json={"name": "second"})
    ada.pipeline("second")
    ada.grant(5)
    pipeline.build()
    pipeline.build()
    lists = (
        "/api/v0/organizations",
        f"{ada.path}/pipelines",
        f"{pipeline.path}/builds",
        f"/api/v0/billing/transactions/{ada.org}",
    )
    for path in lists:
        assert [len(page) for page in pages(ada, path, 1)] == [1, 1], path


@pytest.mark.parametrize("limit", ["0", "101", "-1", "ten", "1.5", "1e1", " 5", "٣", "9" * 30])
def test_a_limit_outside_its_range_is_refused(ada: Account, limit: str):
    answered = ada.client.simulate_get("/api/v0/organizations", params={"limit": limit})

    assert answered.status_code == 422
    assert answered.json["error"]["code"] == "invalid_limit"


@pytest.mark.parametrize("limit", ["1", "100", "007"])
def test_a_limit_within_its_range_is_taken(ada: Account, limit: str):
    assert ada.client.simulate_get("/api/v0/organizations", params={"limit": limit}).status_code == 200


@pytest.mark.parametrize("cursor", ["1", "AAAA", "nonsense", "ü", "x" * 5000, "MTIz=", "%00"])
def test_a_forged_cursor_is_refused(ada: Account, cursor: str):
    answered = ada.client.simulate_get("/api/v0/organizations", params={"cursor": cursor})

    assert answered.status_code == 422
    assert answered.json["error"]["code"] == "invalid_cursor"


def test_a_limit_or_cursor_left_empty_counts_as_not_given(ada: Account):
    for _ in range(51):
        ada.grant(1)
    path = f"/api/v0/billing/transactions/{ada.org}"
    first = ada.client.simulate_get(path)

    for query in ("limit=", "cursor=", "limit=&cursor="):
        assert ada.client.simulate_get(path, query_string=query).json == first.json, query


def test_a_cursor_is_good_for_its_own_list_only(ada: Account, pipeline: PipelinePath):
    other = ada.pipeline("other")
    for _ in range(2):
        pipeline.build()
        other.build()
    cursor = ada.client.simulate_get(f"{pipeline.path}/builds", params={"limit": "1"}).json["next_cursor"]

    assert ada.client.simulate_get(f"{pipeline.path}/builds", params={"cursor": cursor}).status_code == 200
    answered = ada.client.simulate_get(f"{other.path}/builds", params={"cursor": cursor})
    assert answered.json["error"]["code"] == "invalid_cursor"


def test_a_cursor_of_the_callers_list_is_theirs(ada: Account, bob: Account):
    for name in ("second", "third"):
        ada.client.simulate_post("/api/v0/organizations", json={"name": name})
    cursor = ada.client.simulate_get("/api/v0/organizations", params={"limit": "1"}).json["next_cursor"]

    assert ada.client.simulate_get("/api/v0/organizations", params={"cursor": cursor}).status_code == 200
    answered = bob.client.simulate_get("/api/v0/organizations", params={"cursor": cursor})
    assert answered.json["error"]["code"] == "invalid_cursor"


def test_a_page_has_fifty_rows_by_default(ada: Account, pipeline: PipelinePath):
    for _ in range(51):
        ada.grant(1)

    page = ada.client.simulate_get(f"/api/v0/billing/transactions/{ada.org}").json
    assert len(page["data"]) == 50
    assert page["next_cursor"] is not None


def test_who_calls_is_found_before_what_part_of_a_list(ada: Account, world: World):
    """Then the things in the path, and only then the part: a stranger learns of no list."""
    document = world.anonymous.simulate_get("/api/v0/openapi.json").json
    lists = 0
    for path, methods in document["paths"].items():
        declared = methods.get("get", {})
        if not any(each.get("name") == "limit" for each in declared.get("parameters", [])):
            continue
        lists += 1
        nowhere = re.sub(r"{\w+}", "nothing", path)
        if declared.get("security") == [{"bearer": []}]:
            asked = world.anonymous.simulate_get(nowhere, params={"limit": "0"})
            assert (path, asked.status_code) == (path, 401)
        if nowhere != path:
            asked = ada.client.simulate_get(nowhere, params={"limit": "0"})
            assert (path, asked.status_code) == (path, 404)
    assert lists > 10
