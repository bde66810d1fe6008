from __future__ import annotations

import pytest

from storage import BuildState
from tests.api.world import Account, PipelinePath, World

WINDOW = {"from": "2026-01-01T00:00:00Z", "to": "2026-02-01T00:00:00Z"}


@pytest.fixture(params=["", "/series", "/breakdown"])
def path(request: pytest.FixtureRequest, ada: Account) -> str:
    """The path of each endpoint that reports the usage of a window."""
    return f"/api/v0/billing/usage/{ada.org}{request.param}"


def test_usage_sums_the_leases_that_started_in_the_window(ada: Account, pipeline: PipelinePath):
    pipeline.build().job().run_for(100)
    used = ada.client.simulate_get(f"/api/v0/billing/usage/{ada.org}", params=WINDOW)

    assert used.status_code == 200
    of_vms = {"cpu_seconds": 200, "memory_gb_seconds": 400, "disk_gb_seconds": 2000}
    assert used.json == {**of_vms, "kept_mb_seconds": 0, "total_cents": 4}
    before = {"from": "2025-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"}
    assert ada.client.simulate_get(f"/api/v0/billing/usage/{ada.org}", params=before).json["total_cents"] == 0


@pytest.mark.parametrize(
    "query",
    [
        "from=2026-01-01T00:00:00%2B01:00&to=2026-02-01T00:00:00-05:30",
        "from=2026-01-01T00:00:00+01:00&to=2026-02-01T00:00:00+01:00",
        "from=2026-01-01%2000:00Z&to=2026-02-01T00:00:00.123456Z",
        "from=0001-01-01T00:00:00Z&to=0001-01-02T00:00:00.000001Z",
        "from=9999-12-31T00:00:00Z&to=9999-12-31T23:59:59.999999Z",
        "from=2024-02-29T00:00:00Z&to=2024-03-01T00:00:00Z",
        "from=2026-W05-1T00:00Z&to=20260201T000000-0000",
    ],
)
def test_the_window_is_iso_8601_with_an_offset(ada: Account, path: str, query: str):
    answered = ada.client.simulate_get(path, query_string=query)

    assert answered.status_code == 200, answered.text


@pytest.mark.parametrize(
    "query",
    [
        "",
        "from=2026-01-01T00:00:00Z",
        "to=2026-01-01T00:00:00Z",
        "from=2026-01-01T00:00:00&to=2026-02-01T00:00:00Z",
        "from=2026-01-01&to=2026-02-01",
        "from=2025-02-29T00:00:00Z&to=2026-02-01T00:00:00Z",
        "from=0000-01-01T00:00:00Z&to=2026-02-01T00:00:00Z",
        "from=2026-01-01T00:00:00Z&to=10000-01-01T00:00:00Z",
        "from=2026-01-01T00:00:00%2B24:00&to=2026-02-01T00:00:00Z",
        "from=yesterday&to=2026-02-01T00:00:00Z",
        "from=2026-13-01T00:00:00Z&to=2027-02-01T00:00:00Z",
        "from=1&to=2",
        "from=2026-01-01T00:00:00Z&to=2026-01-01T00:00:00Z",
        "from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z",
        "from=0001-01-01T00:00:00%2B14:00&to=2026-01-01T00:00:00Z",
        "from=2026-01-01T00:00:00Z&to=9999-12-31T23:59:59-14:00",
    ],
)
def test_any_other_window_is_refused(ada: Account, path: str, query: str):
    answered = ada.client.simulate_get(path, query_string=query)

    assert answered.status_code == 422
    assert answered.json["error"]["code"] == "billing_usage_window_invalid"


def test_a_series_has_a_bucket_for_each_day(ada: Account, pipeline: PipelinePath):
    pipeline.build().job().run_for(100)
    window = {"from": "2026-01-01T12:00:00Z", "to": "2026-01-03T00:00:00.000001Z"}
    listed = ada.client.simulate_get(f"/api/v0/billing/usage/{ada.org}/series", params=window)

    nothing = {"cpu_seconds": 0, "memory_gb_seconds": 0, "disk_gb_seconds": 0, "kept_mb_seconds": 0, "total_cents": 0}
    used = nothing | {"cpu_seconds": 200, "memory_gb_seconds": 400, "disk_gb_seconds": 2000, "total_cents": 4}
    assert listed.json == {
        "data": [{"date": "2026-01-01"} | nothing, {"date": "2026-01-02"} | used, {"date": "2026-01-03"} | nothing]
    }


def test_a_series_of_more_than_a_leap_year_is_refused(ada: Account):
    path = f"/api/v0/billing/usage/{ada.org}/series"
    window = {"from": "2024-01-01T00:00:00Z", "to": "2025-01-01T00:00:00Z"}
    assert len(ada.client.simulate_get(path, params=window).json["data"]) == 366
    refused = ada.client.simulate_get(path, params=window | {"to": "2025-01-01T00:00:00.000001Z"})

    assert refused.status_code == 422
    assert refused.json["error"]["code"] == "billing_usage_window_invalid"
    assert refused.json["error"]["message"] == "from, to: the window has 367 days, the most is 366: ask for fewer"


def test_a_breakdown_has_a_build_with_its_leases(world: World, ada: Account, pipeline: PipelinePath):
    build = pipeline.build()
    job = build.job()
    job.run_for(100)
    listed = ada.client.simulate_get(f"/api/v0/billing/usage/{ada.org}/breakdown", params=WINDOW).json

    lease = world.storage.leases.of_job(job.stored.id)
    stored = world.storage.pipelines.by_slug(ada.org_id, "demo")
    assert lease is not None
    assert stored is not None
    assert listed == {
        "data": [
            {
                "build_id": build.stored.uuid,
                "build_external_id": build.stored.external_id,
                "build_number": 1,
                "pipeline_id": stored.uuid,
                "pipeline_name": "demo",
                "pipeline_slug": "demo",
                "started_at": "2026-01-02T03:04:05.000000Z",
                "finished_at": "2026-01-02T03:05:45.000000Z",
                "job_count": 1,
                "total_cents": -4,
                "jobs": [
                    {
                        "job_id": job.uuid,
                        "job_name": job.stored.name,
                        "step_key": "only",
                        "vm_handle": lease.uuid,
                        "provider": "sandbox",
                        "cpu_count": 2,
                        "memory_gb": 4,
                        "disk_gb": 20,
                        "amount_cents": -4,
                        "started_at": "2026-01-02T03:04:05.000000Z",
                        "finished_at": "2026-01-02T03:05:45.000000Z",
                        "duration_seconds": 100,
                    }
                ],
            }
        ]
    }


def test_what_runs_has_no_end_and_no_price(world: World, ada: Account, pipeline: PipelinePath):
    job = pipeline.build().job()
    world.storage.leases.start(job.assign("2b0f4b0e-6f0d-4e7f-8f07-6a64b4c3a6d1"), job.stored.id)
    world.clock.advance(100)
    (build,) = ada.client.simulate_get(f"/api/v0/billing/usage/{ada.org}/breakdown", params=WINDOW).json["data"]

    assert (build["finished_at"], build["total_cents"], build["job_count"]) == (None, 0, 1)
    assert (build["jobs"][0]["finished_at"], build["jobs"][0]["duration_seconds"]) == (None, None)
    assert build["jobs"][0]["amount_cents"] == 0


def test_usage_of_a_deleted_pipeline_is_still_reported(world: World, ada: Account, pipeline: PipelinePath):
    build = pipeline.build()
    build.job().run_for(100)
    world.storage.builds.move(build.stored.id, build.stored.state, BuildState.PASSED)
    assert ada.client.simulate_delete(pipeline.path).status_code == 204
    (used,) = ada.client.simulate_get(f"/api/v0/billing/usage/{ada.org}/breakdown", params=WINDOW).json["data"]

    assert (used["pipeline_name"], used["pipeline_slug"], used["total_cents"]) == ("demo", None, -4)


def test_a_breakdown_of_too_many_leases_is_refused(
    world: World, ada: Account, pipeline: PipelinePath, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(world.storage.usage, "MAX_LEASES", 1)
    for _ in range(2):
        pipeline.build().job().run_for(100)
    refused = ada.client.simulate_get(f"/api/v0/billing/usage/{ada.org}/breakdown", params=WINDOW)

    assert refused.status_code == 422
    assert refused.json["error"]["code"] == "billing_usage_window_invalid"
    assert "more than 1 leases started in the window: ask for a shorter one" in refused.json["error"]["message"]
