from __future__ import annotations

import uuid

import pytest

from storage import JobState
from tests.api.world import Account, PipelinePath, World

WINDOW = {"from": "2026-01-01T00:00:00Z", "to": "2026-02-01T00:00:00Z"}


def run_for(world: World, pipeline: PipelinePath, seconds: float) -> None:
    """Build, and let the only job's command run so long."""
    job = pipeline.build().job()
    lease_id = job.assign(str(uuid.uuid4()))
    world.storage.leases.start(lease_id, job.stored.id)
    world.clock.turn(seconds)
    world.storage.jobs.finish(
        job.stored.id,
        JobState.RUNNING,
        JobState.PASSED,
        exit_code=0,
        error_code=None,
        error_message=None,
        soft_failed=False,
        lease_id=lease_id,
        billable=True,
    )


def test_the_balance_is_the_sum_of_the_ledger(world: World, ada: Account, pipeline: PipelinePath):
    ada.grant(50)
    run_for(world, pipeline, 100)

    assert ada.client.simulate_get(f"/api/v0/billing/balance/{ada.org}").json == {"balance_cents": 1046}


def test_transactions_are_newest_first(world: World, ada: Account, pipeline: PipelinePath):
    run_for(world, pipeline, 100)
    listed = ada.client.simulate_get(f"/api/v0/billing/transactions/{ada.org}").json

    assert [row["amount_cents"] for row in listed["data"]] == [-4, 1000]
    assert [row["source"] for row in listed["data"]] == ["vm_lease_debit", "admin_grant"]
    assert [row["description"] for row in listed["data"]] == ["demo #1 only", "for the tests"]
    assert set(listed["data"][0]) == {"id", "amount_cents", "source", "created_at", "description"}
    assert listed["next_cursor"] is None


def test_usage_sums_the_leases_that_started_in_the_window(world: World, ada: Account, pipeline: PipelinePath):
    run_for(world, pipeline, 100)
    used = ada.client.simulate_get(f"/api/v0/billing/usage/{ada.org}", params=WINDOW)

    assert used.status_code == 200
    assert used.json == {"cpu_seconds": 200, "memory_gb_seconds": 400, "disk_gb_seconds": 2000, "total_cents": 4}
    before = {"from": "2025-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"}
    assert ada.client.simulate_get(f"/api/v0/billing/usage/{ada.org}", params=before).json["total_cents"] == 0


@pytest.mark.parametrize(
    "query",
    [
        "from=2026-01-01T00:00:00%2B01:00&to=2026-02-01T00:00:00-05:30",
        "from=2026-01-01T00:00:00+01:00&to=2026-02-01T00:00:00+01:00",
        "from=2026-01-01%2000:00Z&to=2026-02-01T00:00:00.123456Z",
        "from=0001-01-02T00:00:00Z&to=9999-12-31T00:00:00Z",
    ],
)
def test_the_window_is_iso_8601_with_an_offset(ada: Account, query: str):
    answered = ada.client.simulate_get(f"/api/v0/billing/usage/{ada.org}", query_string=query)

    assert answered.status_code == 200, answered.text


@pytest.mark.parametrize(
    "query",
    [
        "",
        "from=2026-01-01T00:00:00Z",
        "to=2026-01-01T00:00:00Z",
        "from=2026-01-01T00:00:00&to=2026-02-01T00:00:00Z",
        "from=2026-01-01&to=2026-02-01",
        "from=yesterday&to=2026-02-01T00:00:00Z",
        "from=2026-13-01T00:00:00Z&to=2027-02-01T00:00:00Z",
        "from=1&to=2",
        "from=2026-01-01T00:00:00Z&to=2026-01-01T00:00:00Z",
        "from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z",
        "from=0001-01-01T00:00:00%2B14:00&to=2026-01-01T00:00:00Z",
        "from=2026-01-01T00:00:00Z&to=9999-12-31T23:59:59-14:00",
    ],
)
def test_any_other_window_is_refused(ada: Account, query: str):
    answered = ada.client.simulate_get(f"/api/v0/billing/usage/{ada.org}", query_string=query)

    assert answered.status_code == 422
    assert answered.json["error"]["code"] == "billing_usage_window_invalid"


@pytest.mark.parametrize("part", ["balance", "transactions", "usage"])
def test_money_is_for_members_only(world: World, ada: Account, bob: Account, part: str):
    path = f"/api/v0/billing/{part}/{ada.org}"

    assert bob.client.simulate_get(path, params=WINDOW).json["error"]["code"] == "organization_not_found"
    assert world.anonymous.simulate_get(path, params=WINDOW).status_code == 401
