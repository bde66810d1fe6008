from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ci_daemon.command import main
from tests.ci_daemon.scripted_service import ScriptedService, scripted_service
from tests.ci_daemon.submit.builds import FORK, Submit


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ScriptedService]:
    with scripted_service(tmp_path) as service:
        yield service


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "demo"
    tree.mkdir()
    (tree / "main.py").write_text("print()\n")
    return tree


@pytest.fixture
def ir(tmp_path: Path) -> Path:
    file = tmp_path / "pipeline.ir.json"
    file.write_text(json.dumps(FORK))
    return file


@pytest.fixture
def submit(service: ScriptedService, tree: Path, ir: Path, monkeypatch: pytest.MonkeyPatch) -> Submit:
    monkeypatch.setenv("CI_DAEMON_URL", service.url)
    monkeypatch.setenv("CI_DAEMON_TOKEN", service.token)

    def submit(*options: str) -> int:
        return main(["submit", str(tree), "--pipeline", "demo", "--ir", str(ir), *options])

    return submit
