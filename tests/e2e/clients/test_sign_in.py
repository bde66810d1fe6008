"""The owner of a new service signs in with a real OpenID Connect issuer."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.api.sign_in.real_issuer import CLIENT, Issuer, Step, running_issuer
from tests.e2e.daemon import Daemon

PATH = "/api/v0/auth/oidc/my-corp"


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with running_issuer({"ada": {"email": "ada@example.org", "email_verified": True, "name": "Ada"}}) as issuer:
        yield issuer


@pytest.fixture(scope="module")
def settings(issuer: Issuer) -> dict[str, str]:
    return {
        "CI_DAEMON_POOL_PARKED": "0",
        "CI_DAEMON_HTTP_CORS_ORIGINS": "https://ci.example.org",
        "CI_DAEMON_IDENTITY_OIDC_MY_CORP_ISSUER": issuer.url,
        "CI_DAEMON_IDENTITY_OIDC_MY_CORP_CLIENT_ID": str(CLIENT["client_id"]),
        "CI_DAEMON_IDENTITY_OIDC_MY_CORP_CLIENT_SECRET": str(CLIENT["client_secret"]),
    }


def test_the_owner_signs_in_by_link_and_others_do_not(daemon: Daemon, issuer: Issuer):
    (listed,) = httpx.get(f"{daemon.url}/api/v0/auth/providers", timeout=30).json()["providers"]
    assert (listed["authorize_url"], listed["path"]) == (f"{issuer.url}/auth", PATH)

    def sign_in(**others: str) -> httpx.Response:
        step = Step()
        return httpx.post(f"{daemon.url}{PATH}", json=step.body(issuer.sign_in("ada", step), **others), timeout=30)

    refused = sign_in()
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "signup_closed")
    link = daemon.command("user", "link", "--owner").stdout.strip()
    made = sign_in(owner_token=link.rpartition("#")[2]).json()
    caller = httpx.get(f"{daemon.url}/api/v0/user", headers={"Authorization": f"Bearer {made['token']}"}, timeout=30)
    assert (caller.json()["uuid"], caller.json()["name"]) == (made["user"]["uuid"], "Ada")
    assert sign_in().json()["user"] == made["user"]
    assert str(CLIENT["client_secret"]) not in daemon.log
