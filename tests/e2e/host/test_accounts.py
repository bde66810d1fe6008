"""Users: signing in on a host without an identity provider, and the remains of a closed account."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from tests.e2e.daemon import Client, Daemon
from tests.e2e.pipelines import one

NONCE = "a-nonce-of-the-command-line"


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {"CI_DAEMON_POOL_PARKED": "0", "CI_DAEMON_POOL_MAX_VMS": "1", "CI_DAEMON_JOBS_KILL_GRACE": "1"}


@pytest.fixture
def browser(daemon: Daemon, client: Client) -> Client:
    """The user with a session that was made on the host."""
    made = daemon.json("token", "create", client.email, "--kind", "session")
    return replace(client, token=made["token"])


def test_a_session_from_the_box_is_handed_on_to_a_command_line(daemon: Daemon, client: Client, browser: Client):
    def claim() -> httpx.Response:
        return httpx.post(f"{daemon.url}/api/v0/auth/cli/claim", json={"nonce": NONCE}, timeout=60)

    assert claim().json()["error"]["code"] == "cli_code_invalid"
    transfer = {"json": {"nonce": NONCE}}
    assert client.request("POST", "/api/v0/auth/cli/transfer", **transfer).status_code == 403
    assert browser.request("POST", "/api/v0/auth/cli/transfer", **transfer).status_code == 204
    claimed = claim()
    assert claimed.status_code == 200
    assert claim().status_code == 400

    terminal = replace(client, token=claimed.json()["token"])
    assert terminal.get("/api/v0/user")["email"] == client.email
    assert terminal.request("POST", "/api/v0/auth/logout").status_code == 204
    assert terminal.request("GET", "/api/v0/user").status_code == 401
    assert browser.get("/api/v0/user")["email"] == client.email


def test_who_leaves_ends_builds_and_vms_and_may_come_again(daemon: Daemon, client: Client):
    build = client.pipeline().build(one("echo begun; sleep 600"))
    build.says("begun")
    assert len(daemon.vms()) == 1

    assert client.request("DELETE", "/api/v0/user").status_code == 204

    daemon.wait_until_idle()
    assert client.request("GET", build.path).status_code == 401
    assert Client.create(daemon, client.email).org == f"{client.org}-2"
    assert daemon.command("ledger", "grant", client.org, "1", check=False).returncode == 1
