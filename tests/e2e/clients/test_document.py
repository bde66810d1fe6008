"""The daemon against its OpenAPI document, with requests generated from the document."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.daemon import Client, Daemon
from tests.identity.github import Github
from tests.identity.google import Google
from tests.identity.issuer import ScriptedIssuer
from tests.identity.local_server import LocalServer, local_server
from tests.payment_provider import SECRET_KEY, WEBHOOK_SECRET, LocalProvider

pytestmark = pytest.mark.long

_SECONDS = 1800
"""Of schemathesis, whose work is bounded by its examples, and its time by the processor."""

CONFIG = Path(__file__).with_name("schemathesis.toml")
HOOKS = Path(__file__).with_name("schemathesis_hooks.py")
CHARACTERS = Path(__file__).parents[3] / ".hypothesis"
"""The folder for hypothesis's tables of all characters, which take it seconds to make."""

PIPELINES = "/api/v0/organizations/{org}/pipelines"
UNLIMITED = str(10**6)


@pytest.fixture(scope="module")
def settings() -> Iterator[dict[str, str]]:
    with LocalProvider.serving() as provider, local_server() as server:
        yield {
            **identity_providers(server),
            "CI_DAEMON_IDENTITY_SIGNUP": "open",
            "CI_DAEMON_PAYMENTS_SECRET_KEY": SECRET_KEY,
            "CI_DAEMON_PAYMENTS_WEBHOOK_SECRET": WEBHOOK_SECRET,
            "CI_DAEMON_PAYMENTS_API_BASE": provider.url,
            "CI_DAEMON_POOL_PARKED": "0",
            "CI_DAEMON_POOL_MAX_VMS": "1",
            "CI_DAEMON_RATE_LIMITS_ADDRESS_PER_MINUTE": UNLIMITED,
            "CI_DAEMON_RATE_LIMITS_ACCOUNT_PER_MINUTE": UNLIMITED,
            "CI_DAEMON_RATE_LIMITS_EMAILS_PER_MINUTE": UNLIMITED,
            "CI_DAEMON_RATE_LIMITS_FAILURES_PER_MINUTE": UNLIMITED,
        }


def identity_providers(server: LocalServer) -> dict[str, str]:
    """Return the configuration of providers that accept the codes of the document's examples."""
    code, page = "4/0AVMBsJhPq1Vt3kzQ", "https://ci.example.org/login/with/google/callback"
    sections: dict[str, Any] = {
        "GOOGLE": Google(server, code, page).settings,
        "GITHUB": Github(server, code, page).settings,
        "OIDC_CORP": ScriptedIssuer(server, int(time.time())).settings,
    }
    keys = ("issuer", "client_id", "client_secret", "token_url", "userinfo_url", "emails_url")
    return {
        f"CI_DAEMON_IDENTITY_{name}_{key.upper()}": getattr(section, key)
        for name, section in sections.items()
        for key in keys
        if hasattr(section, key)
    }


@pytest.fixture
def client(daemon: Daemon) -> Client:
    """The user of the document's examples, with the resources that they name."""
    client = Client.create(daemon, "ada@example.org")
    assert client.org == "ada-example-org"
    paths = client.get("/api/v0/openapi.json")["paths"]
    for method, path in (("POST", PIPELINES), ("PATCH", f"{PIPELINES}/{{pipeline}}")):
        example = paths[path][method.lower()]["requestBody"]["content"]["application/json"]["example"]
        if "followers" in example:
            example["followers"] = [client.org]
        answered = client.request(method, path.format(org=client.org, pipeline="hello"), json=example)
        assert answered.json()["slug"] == "hello"
    daemon.command("coupon", "create", "WELCOME-2026", "500")
    return client


@pytest.mark.timeout(_SECONDS)
def test_schemathesis_finds_nothing(daemon: Daemon, client: Client, tmp_path: Path):
    def session() -> str:
        token: str = daemon.json("token", "create", client.email, "--kind", "session")["token"]
        return token

    environ = {
        **os.environ,
        "SCHEMATHESIS_HOOKS": str(HOOKS),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(CHARACTERS),
        "CONTRACT_SESSION": session(),
        "CONTRACT_LOGOUT": session(),
        "CONTRACT_LEAVING": Client.create(daemon, "leaving@example.org").token,
    }
    done = subprocess.run(
        [
            *(Path(sys.executable).with_name("schemathesis"), "--no-color", "--config-file", CONFIG),
            *("run", f"{daemon.url}/api/v0/openapi.json"),
        ],
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    for phase in ("Examples", "Coverage", "Fuzzing", "Stateful"):
        assert f"✅ {phase}" in done.stdout, done.stdout
