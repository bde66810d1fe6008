"""The host owner's commands for money."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from storage import CouponExpired, NewPaymentEvent, PaymentState, RefundTotal, SessionReport, Storage, SystemClock
from tests.ci_daemon.conftest import Run, RunJson
from tests.state import new_storage, run_sql


@pytest.fixture
def state(tmp_path: Path) -> Path:
    storage = new_storage(tmp_path / "state", SystemClock())
    storage.organizations.create("Acme", "", storage.users.create("ada@example.org", "Ada").id)
    storage.close()
    return tmp_path / "state"


def test_a_refund_is_credit_with_a_reason(run_json: RunJson):
    run_json("ledger", "grant", "acme", "100")
    refunded = run_json("ledger", "refund", "acme", "7", "--note", "a lost job")
    assert (refunded["amount_cents"], refunded["balance_cents"]) == (7, 107)
    entry = run_json("ledger", "export", "acme")[1]
    assert entry["id"] == refunded["id"]
    assert (entry["source"], entry["description"]) == ("refund", "a lost job")


def test_the_ledger_is_exported_oldest_first_with_balances(
    state: Path, run: Run, run_json: RunJson, capsys: pytest.CaptureFixture[str]
):
    assert run_json("ledger", "export", "acme") == []
    run_json("ledger", "grant", "acme", "100", "--note", 'wel,\n"come"')
    run_json("ledger", "refund", "acme", "5", "--note", "oops")
    exported = run_json("ledger", "export", "acme")
    assert [(each["amount_cents"], each["balance_cents"]) for each in exported] == [(100, 100), (5, 105)]
    assert run("ledger", "export", "acme", "--csv") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert rows == [{name: str(value) for name, value in each.items()} for each in exported]
    assert rows[0]["description"] == 'wel,\n"come"'
    assert run("ledger", "export", "acme") == 0
    assert 'wel, "come"' in capsys.readouterr().out


def test_a_long_ledger_is_exported_whole(state: Path, run_json: RunJson):
    storage = Storage.open(state, SystemClock())
    acme = storage.organizations.by_slug("acme")
    assert acme is not None
    storage.close()
    run_sql(
        state,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)"
        " INSERT INTO ledger_entries (uuid, organization_id, amount_cents, source, created_at)"
        " SELECT 'e' || i, :acme, i, 'admin_grant', 0 FROM n",
        acme=acme.id,
    )
    exported = run_json("ledger", "export", "acme")
    assert [each["amount_cents"] for each in exported] == list(range(1, 2501))
    assert exported[-1]["balance_cents"] == sum(range(2501))


def test_a_coupon_is_made_listed_and_disabled(run_json: RunJson, run: Run, capsys: pytest.CaptureFixture[str]):
    today = datetime.now(UTC).date()
    made = run_json("coupon", "create", "spring-26", "50", "--max", "2", "--expires", str(today), "--note", "hello")
    assert made.pop("created_at")
    assert made == {
        "code": "SPRING-26",
        "credit_cents": 50,
        "redemptions": 0,
        "max_redemptions": 2,
        "expires_at": f"{today + timedelta(days=1)}T00:00:00.000000Z",
        "note": "hello",
    }
    plain = run_json("coupon", "create", "ever", "5")
    assert (plain["max_redemptions"], plain["expires_at"], plain["note"]) == (None, None, None)
    assert [each["code"] for each in run_json("coupon", "list")] == ["SPRING-26", "EVER"]
    assert run("coupon", "list") == 0
    assert "SPRING-26" in capsys.readouterr().out
    disabled = run_json("coupon", "disable", "Ever")
    assert disabled["expires_at"] is not None
    assert run_json("coupon", "disable", "Ever") == disabled


def test_a_coupon_of_the_box_is_redeemed_and_counted(state: Path, run_json: RunJson):
    run_json("coupon", "create", "FIVE", "5")
    storage = Storage.open(state, SystemClock())
    acme = storage.organizations.by_slug("acme")
    assert acme is not None
    assert storage.coupons.redeem("five", acme.id).balance_cents == 5
    assert [each["redemptions"] for each in run_json("coupon", "list")] == [1]
    run_json("coupon", "disable", "FIVE")
    other = storage.organizations.create("Other", "", 1)
    with pytest.raises(CouponExpired):
        storage.coupons.redeem("five", other.id)
    storage.close()


def test_verification_compares_payments_and_ends_with_1(state: Path, run: Run, capsys: pytest.CaptureFixture[str]):
    storage = Storage.open(state, SystemClock())
    acme = storage.organizations.by_slug("acme")
    assert acme is not None
    report = SessionReport("cs_1", acme.uuid, PaymentState.PAID, 2500, "pi_1")
    storage.payments.record(NewPaymentEvent("evt_1", "checkout.session.completed", {}, report))
    storage.payments.record(NewPaymentEvent("evt_2", "charge.refunded", {}, RefundTotal("pi_1", 500)))
    storage.close()
    assert run("ledger", "verify") == 0
    assert "balances, debits and payments are correct" in capsys.readouterr().out

    run_sql(state, "UPDATE payments SET amount_cents = 3000; UPDATE payment_totals SET refunded_cents = 700")
    assert run("ledger", "verify") == 1
    said = capsys.readouterr()
    assert "payment cs_1 is credited 2500 cents, the provider reports 3000 as paid" in " ".join(said.out.split())
    assert "payment cs_1 has refunds of 500 cents in the ledger, the provider reports 700" in " ".join(said.out.split())
    assert "the ledger has 2 discrepancies" in said.err


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["ledger", "refund", "acme", "5"], 2, "Missing option '--note'"),
        (["ledger", "refund", "acme", "5", "--note", " "], 2, "give 1 to 10000 characters"),
        (["ledger", "refund", "acme", "0", "--note", "x"], 2, "0 is not in the range"),
        (["ledger", "refund", "nobody", "5", "--note", "x"], 1, 'there is no organization "nobody"'),
        (["ledger", "export", "nobody"], 1, 'there is no organization "nobody"'),
        (["ledger", "export", "acme", "--csv", "--json"], 2, "choose one of --csv and --json"),
        (["coupon", "create", "abc", "5"], 2, "give 4 to 64 letters"),
        (["coupon", "create", "abc def", "5"], 2, "give 4 to 64 letters"),
        (["coupon", "create", "straße", "5"], 2, "give 4 to 64 letters"),
        (["coupon", "create", "taken", "5"], 1, "there is a coupon TAKEN already: choose another code"),
        (["coupon", "create", "code", "0"], 2, "0 is not in the range"),
        (["coupon", "create", "code", "5", "--max", "0"], 2, "0 is not in the range"),
        (["coupon", "create", "code", "5", "--expires", "2020-01-01"], 2, "is not a day on which a coupon can end"),
        (["coupon", "create", "code", "5", "--expires", "9999-12-31"], 2, "is not a day on which a coupon can end"),
        (["coupon", "create", "code", "5", "--expires", "soon"], 2, "is not a day on which a coupon can end"),
        (["coupon", "disable", "code"], 1, 'there is no coupon "code": `ci-daemon coupon list` shows'),
    ],
)
def test_impossible_requests_are_refused_with_the_reason(
    run: Run, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, sentence: str
):
    run("coupon", "create", "taken", "1")
    capsys.readouterr()
    assert run(*arguments) == code
    assert sentence in capsys.readouterr().err
