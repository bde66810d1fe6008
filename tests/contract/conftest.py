"""A scene to read, a scene to change, and a summary of the covered rows at the end of the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from api import IdentitySettings
from tests.contract.reference import LATER, RULES
from tests.contract.scene import Scene, make_scene
from tests.forges.forgejo import ForgejoServer
from tests.forges.server import LocalHost, serving
from tests.github_server import GithubServer
from tests.identity.everyone import providers_of
from tests.payment_provider import LocalProvider

_ROWS = "contract_row"


@pytest.fixture(scope="session")
def provider() -> Iterator[LocalProvider]:
    with LocalProvider.serving() as provider:
        yield provider


@pytest.fixture(scope="session")
def identity() -> Iterator[IdentitySettings]:
    with providers_of("owner@example.org") as identity:
        yield identity


@pytest.fixture(scope="session")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalHost]:
    with serving(ForgejoServer(), tmp_path_factory.mktemp("forge")) as forge:
        yield forge


@pytest.fixture(scope="session")
def github() -> Iterator[GithubServer]:
    with GithubServer.serving() as github:
        yield github


@pytest.fixture(scope="session")
def seen(
    tmp_path_factory: pytest.TempPathFactory,
    provider: LocalProvider,
    identity: IdentitySettings,
    forge: LocalHost,
    github: GithubServer,
) -> Iterator[Scene]:
    """A scene that no test changes: requests to it only read, or are refused."""
    storage, scene = make_scene(tmp_path_factory.mktemp("seen") / "state", provider, identity, forge, github)
    yield scene
    storage.close()


@pytest.fixture
def scene(
    tmp_path: Path, provider: LocalProvider, identity: IdentitySettings, forge: LocalHost, github: GithubServer
) -> Iterator[Scene]:
    """A scene for one test, which may change it."""
    storage, scene = make_scene(tmp_path / "state", provider, identity, forge, github)
    yield scene
    storage.close()


@pytest.fixture(autouse=True)
def _row(request: pytest.FixtureRequest) -> None:
    """Record the contract's table of the test's row: its module's, or, for a rule, its section."""
    spec = getattr(request.node, "callspec", None)
    rule = spec.params.get("rule") if spec else None
    request.node.user_properties.append((_ROWS, f"Rules: {rule.section}" if rule else request.module.TABLE))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many tests of each table passed, the rules that are not held, and the rows for later."""
    passed, failed = Counter[str](), Counter[str]()
    for outcome, counted in (("passed", passed), ("failed", failed), ("error", failed)):
        for report in terminalreporter.stats.get(outcome, []):
            counted.update(value for name, value in getattr(report, "user_properties", []) if name == _ROWS)
    if not passed and not failed:
        return
    terminalreporter.section("contract")
    broken = {report.nodeid.partition("[")[0] for report in terminalreporter.stats.get("failed", [])}
    for table in dict.fromkeys((*passed, *failed)):
        missed = f"{failed[table]} FAILED" if failed[table] else ""
        terminalreporter.write_line(f"{table:<50} {passed[table]:>5} passed  {missed}".rstrip())
    for rule in RULES:
        if broken & {f"tests/{test}" for test in rule.tests}:
            terminalreporter.write_line(f"NOT HELD: {rule.section}: {rule.says}")
    for row in LATER:
        terminalreporter.write_line(f"later: {row}")
