"""An organization's credit and usage, through the API and on the host."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.e2e.daemon import Client, Daemon
from tests.e2e.pipelines import Graph


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {
        "CI_DAEMON_POOL_PARKED": "1",
        "CI_DAEMON_POOL_MAX_VMS": "2",
        "CI_DAEMON_BILLING_CPU": "1000000",
        "CI_DAEMON_BILLING_REQUIRE_CREDIT": "true",
        "CI_DAEMON_JOBS_KILL_GRACE": "1",
    }


def test_a_coupon_pays_for_a_build_and_all_accounts_agree(daemon: Daemon):
    client = Client.create(daemon, "poor@example.org", cents=0)
    pipeline = client.pipeline()
    broke = client.request("POST", "pipelines/demo/builds", json={"branch": "main", "commit": "0" * 40})
    assert broke.json()["error"]["code"] == "billing_insufficient_balance"

    daemon.command("coupon", "create", "spring-26", "5000", "--max", "1", "--note", "welcome")
    redeemed = redeem(client, " Spring-26 ")
    assert (redeemed.status_code, redeemed.json()) == (200, {"credit_cents": 5000, "balance_cents": 5000})
    assert redeem(client, "SPRING-26").json()["error"]["code"] == "coupon_already_claimed"
    late = Client.create(daemon, "late@example.org", cents=0)
    assert redeem(late, "SPRING-26").json()["error"]["code"] == "coupon_exhausted"

    build = pipeline.build(Graph().step("work", "sleep 2").step("waits", "echo begun; sleep 600", after=("work",)).ir())
    build.says("begun", "waits")
    window = around_now()
    (running,) = client.get(f"/api/v0/billing/usage/{client.org}/breakdown", params=window)["data"]
    assert [job["duration_seconds"] is None for job in running["jobs"]] == [False, True]
    build.cancel()
    assert build.finish()["state"] == "canceled"
    assert client.request("DELETE", f"pipelines/{pipeline.slug}").status_code == 204

    usage = client.get(f"/api/v0/billing/usage/{client.org}", params=window)
    series = client.get(f"/api/v0/billing/usage/{client.org}/series", params=window)["data"]
    (spent,) = client.get(f"/api/v0/billing/usage/{client.org}/breakdown", params=window)["data"]
    assert {name: sum(day[name] for day in series) for name in usage} == usage
    assert [job["step_key"] for job in spent["jobs"]] == ["work", "waits"]
    assert (spent["build_number"], spent["pipeline_name"], spent["pipeline_slug"]) == (1, "demo", None)
    assert usage["total_cents"] == -spent["total_cents"] == -sum(job["amount_cents"] for job in spent["jobs"]) > 0
    assert usage["cpu_seconds"] == sum(job["cpu_count"] * job["duration_seconds"] for job in spent["jobs"])

    daemon.command("ledger", "refund", client.org, "3", "--note", "for the trouble")
    exported = list(csv.DictReader(io.StringIO(daemon.command("ledger", "export", client.org, "--csv").stdout)))
    assert [entry["source"] for entry in exported] == ["coupon_redemption", *["vm_lease_debit"] * 2, "refund"]
    balance = client.get(f"/api/v0/billing/balance/{client.org}")["balance_cents"]
    assert balance == 5000 - usage["total_cents"] + 3 == int(exported[-1]["balance_cents"])
    daemon.command("ledger", "verify")


def redeem(client: Client, code: str) -> Any:
    """Redeem a coupon; return the answer."""
    return client.request("POST", f"/api/v0/billing/coupon/redeem/{client.org}", json={"code": code})


def around_now() -> dict[str, str]:
    """Return a window around this test."""
    now = datetime.now(UTC)
    return {"from": (now - timedelta(days=1)).isoformat(), "to": (now + timedelta(days=1)).isoformat()}
