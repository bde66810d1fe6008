"""Imports take most of a small command's time, so it imports only the modules that it uses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from storage import NewPipeline, Storage
from tests.records import new_owner

if TYPE_CHECKING:
    from collections.abc import Iterable

NEVER = {"anyio", "cryptography", "email_validator", "falcon", "httpx", "paramiko", "pathspec", "prometheus_client"}
NEVER |= {"pydantic", "pykka", "smtplib", "waitress", "multiprocessing", "importlib.metadata"}
NEVER |= {"ahocorasick_rs", "html", "mimetypes"}
RECORDS = {"tomllib", "actors", "api", "ci_daemon.config"}
"""Modules that read the configuration or look at the live service."""

OPERATION = RECORDS - {"api"}
"""The same for a command that performs an operation."""

SMALL = {
    "--help": NEVER | RECORDS | {"storage", "peewee", "rich"},
    "build --help": NEVER | OPERATION,
    "login --help": NEVER,
    "user list": NEVER | OPERATION,
    "user list --json": NEVER | OPERATION | {"rich"},
    "org list": NEVER | OPERATION,
    "member list ada-example-org": NEVER | OPERATION,
    "audit": NEVER | OPERATION,
    "token create ada@example.org": NEVER | OPERATION,
    "token list ada@example.org": NEVER | OPERATION,
    "pipeline list ada-example-org": NEVER | OPERATION,
    "build list ada-example-org/web": NEVER | OPERATION | {"webbrowser"},
    "coupon list": NEVER | OPERATION,
    "mail queue": NEVER | OPERATION,
    "secret list ada-example-org": NEVER | OPERATION,
    "queue": NEVER,
    "lease list": NEVER,
}
"""Commands, and the modules that they do not import."""


@pytest.fixture
def state(state: Path, storage: Storage) -> Path:
    storage.pipelines.create(new_owner(storage).organization.id, NewPipeline("web", "Web", "r", "main"))
    return state


def ours(names: Iterable[str]) -> list[str]:
    """Return the modules of this repository, less those that are packages."""
    root = Path(__file__).parents[3]
    return sorted(each for each in names if root.joinpath(*each.split(".")).with_suffix(".py").is_file())


def imported(state: Path, *arguments: str) -> set[str]:
    """Return the names of all modules that a command imports."""
    script = (
        "import sys\nfrom ci_daemon.command import main\ncode = main(sys.argv[1:])\n"
        "print(*sys.modules, file=sys.stderr)\nsys.exit(code)"
    )
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("CI_DAEMON_", "COVERAGE_"))}
    done = subprocess.run(
        [sys.executable, "-c", script, "--state-dir", str(state), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environ,
    )
    assert done.returncode in {0, 3}, done.stderr
    return set(done.stderr.split())


@pytest.mark.parametrize("line", SMALL)
def test_a_small_command_imports_little(state: Path, line: str):
    assert sorted(imported(state, *line.split()) & SMALL[line]) == []


def test_status_imports_nothing_that_makes_vms(state: Path):
    found = imported(state, "status")
    assert sorted(found & (NEVER - {"importlib.metadata"} | {"actors.vms.sandbox.provider", "rich"})) == []


@pytest.mark.parametrize(
    ("line", "most"), [("status", 316), ("queue", 277), ("build list ada-example-org/web", 260), ("user list", 280)]
)
def test_a_small_command_imports_few_modules(state: Path, line: str, most: int):
    assert len(imported(state, *line.split())) <= most


def test_a_list_of_secrets_imports_few_modules_of_ours(state: Path):
    """Those of the values that jobs get, and of billing, are no part of it."""
    assert len(ours(imported(state, "secret", "list", "ada-example-org"))) <= 42


def test_a_configuration_costs_its_check_and_nothing_that_serves(state: Path):
    (state / "ci-daemon.toml").write_text("[pool]\nmax_vms = 3\n")
    assert sorted(imported(state, "queue") & (NEVER - {"importlib.metadata"})) == []


def test_the_engine_imports_nothing_that_only_a_service_needs():
    """Paramiko brings asyncio with it unless it is told not to."""
    script = "import sys, actors.engine, actors.vms.ssh.connection; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) & {"asyncio", "falcon", "httpx", "pydantic", "unittest", "waitress"} == set()


def test_the_service_starts_without_a_client_for_http():
    """Httpx imports its own command with it, which takes as long as a tenth of the service."""
    script = "import sys, ci_daemon.command.operation.serve, ci_daemon.service; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) & {"httpx", "pygments", "rich"} == set()


def test_the_service_starts_without_ssh():
    """Its first VM needs it, which is parked once the service answers."""
    script = "import sys, ci_daemon.command.operation.serve, ci_daemon.service; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "paramiko" not in done.stdout.split()


def test_the_service_starts_without_what_programs_do_not_ask_for():
    """Pages, ways in, source hosts, payments and e-mail are imported when they are first needed."""
    later = {"api.later", "api.console.routes", "api.openapi.document", "api.payments.provider", "api.sign_in.passkeys"}
    later |= {
        "actors.mail.smtp",
        "actors.notifications.sending",
        "actors.repositories.pushes",
        "actors.vms.incus.fleet",
    }
    later |= {"actors.source_hosts.bitbucket", "actors.source_hosts.forgejo", "actors.source_hosts.github"}
    script = "import sys, ci_daemon.command.operation.serve, ci_daemon.service; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    found = set(done.stdout.split())
    assert found & (later | {"httpcore", "smtplib"}) == set()
    assert len([name for name in found if name.startswith(("actors", "api", "ci_daemon", "storage"))]) <= 266
