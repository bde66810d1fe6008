from __future__ import annotations

from tests.api.world import Account, PipelinePath, World


def test_the_balance_is_the_sum_of_the_ledger(world: World, ada: Account, pipeline: PipelinePath):
    ada.grant(50)
    pipeline.build().job().run_for(100)

    assert ada.client.simulate_get(f"/api/v0/billing/balance/{ada.org}").json == {"balance_cents": 1046}


def test_transactions_are_newest_first(world: World, ada: Account, pipeline: PipelinePath):
    pipeline.build().job().run_for(100)
    listed = ada.client.simulate_get(f"/api/v0/billing/transactions/{ada.org}").json

    assert [row["amount_cents"] for row in listed["data"]] == [-4, 1000]
    assert [row["source"] for row in listed["data"]] == ["vm_lease_debit", "admin_grant"]
    assert [row["description"] for row in listed["data"]] == ["demo #1 only", "for the tests"]
    assert set(listed["data"][0]) == {"id", "amount_cents", "source", "created_at", "description"}
    assert listed["next_cursor"] is None
