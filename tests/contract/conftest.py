"""A scene to read, a scene to change, and a summary of the covered rows at the end of the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.reference import RULES
from tests.contract.scene import Scene
from tests.contract.scenes import Outside, Scenes
from tests.measuring import unmeasured

_ROWS = "contract_row"


@pytest.fixture(scope="module", autouse=True)
def _outside() -> Iterator[None]:
    """Measure no coverage: tests of the parts reach their code, and with more cases."""
    with unmeasured():
        yield


@pytest.fixture(scope="session")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenes]:
    with Outside.serving(tmp_path_factory.mktemp("outside")) as outside:
        yield Scenes(tmp_path_factory.mktemp("scene"), outside)


@pytest.fixture(scope="session")
def seen(scenes: Scenes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A scene that no test changes: requests to it only read, or are refused."""
    with scenes.copy(tmp_path_factory.mktemp("seen") / "state") as scene:
        yield scene


@pytest.fixture
def scene(scenes: Scenes, tmp_path: Path) -> Iterator[Scene]:
    """A scene for one test, which may change it."""
    with scenes.copy(tmp_path / "state") as scene:
        yield scene


@pytest.fixture(autouse=True)
def _row(request: pytest.FixtureRequest) -> None:
    """Record the contract's table of the test's row: its module's, or, for a rule, its section."""
    spec = getattr(request.node, "callspec", None)
    rule = spec.params.get("rule") if spec else None
    request.node.user_properties.append((_ROWS, f"Rules: {rule.section}" if rule else request.module.TABLE))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many tests of each table passed, and the rules that are not held."""
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
