"""A page of the database is damaged: the service says so, and removes nothing because of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from storage import SystemClock
from tests.damage import damage_page
from tests.e2e.daemon import Client, Daemon, ForkedDaemon
from tests.state import new_storage
from tests.waiting import until

_DATABASE = "ci-daemon.sqlite3"


@pytest.fixture
def daemon(images_dir: Path, tmp_path: Path) -> Iterator[Daemon]:
    daemon = ForkedDaemon(tmp_path / "state", {"CI_DAEMON_IMAGES_DIR": str(images_dir), "CI_DAEMON_POOL_PARKED": "0"})
    new_storage(daemon.state, SystemClock()).close()
    yield daemon
    daemon.kill()


def test_a_damaged_page_is_told_before_anybody_meets_it(daemon: Daemon):
    """Only codes of coupons are on it, which the service reads as somebody redeems one."""
    client = Client.create(daemon, "ada@example.org")
    damage_page(daemon.state / _DATABASE, "sqlite_autoindex_coupons_1")
    logs_without_a_row = daemon.state / "logs" / str(uuid4())
    logs_without_a_row.mkdir(parents=True)
    daemon.start()

    until(lambda: "retention removes nothing: the database is damaged" in daemon.log, "word of the page in the log")
    assert "restore a backup with `ci-daemon restore`" in daemon.log
    assert "Traceback" not in daemon.log
    assert "the database is damaged" in daemon.json("status")["database_damage"]
    assert "the database is damaged" in daemon.command("status").stdout
    assert "damaged" in daemon.command("doctor", check=False).stdout
    assert httpx.get(f"{daemon.url}/healthz").text == "ok"
    assert "ci_daemon_database_damaged 1.0" in httpx.get(f"{daemon.url}/metrics").text
    redeemed = client.request("POST", f"/api/v0/billing/coupon/redeem/{client.org}", json={"code": "WELCOME-2026"})
    assert redeemed.status_code == 500, redeemed.text
    assert logs_without_a_row.exists()
    assert daemon.stop() == 0
