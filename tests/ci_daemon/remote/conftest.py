"""A person's machine without a state directory, and a service elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ci_daemon import command
from ci_daemon.command import main
from storage import NewPipeline, Pipeline
from tests.ci_daemon.scripted_service import ScriptedService, scripted_service

RunJson = Callable[..., Any]
Printed = Callable[..., list[str]]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ScriptedService]:
    with scripted_service(tmp_path) as service:
        yield service


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let nothing on this machine name a server or a box; return the configuration folder."""
    for name in ("CI_DAEMON_URL", "CI_DAEMON_TOKEN", "CI_DAEMON_CONTEXT", "CI_DAEMON_STATE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    monkeypatch.setattr(command, "DEFAULT_STATE_DIR", tmp_path / "no-box")
    return tmp_path / "config" / "ci-daemon"


@pytest.fixture
def at_server(service: ScriptedService, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands speak to the service as its user."""
    monkeypatch.setenv("CI_DAEMON_URL", service.url)
    monkeypatch.setenv("CI_DAEMON_TOKEN", service.token)


@pytest.fixture
def run_json(at_server: None, capsys: pytest.CaptureFixture[str]) -> RunJson:
    """Run a command with ``--json``, and return its document."""

    def run_json(*arguments: str) -> Any:
        assert main([*arguments, "--json"]) == 0, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    return run_json


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """Run a command, and return the lines that it prints."""

    def printed(*arguments: str, code: int = 0) -> list[str]:
        assert main(arguments) == code, capsys.readouterr().err
        return capsys.readouterr().out.splitlines()

    return printed


@pytest.fixture
def pipeline(service: ScriptedService) -> Pipeline:
    organization = service.storage.organizations.by_slug(service.org)
    assert organization is not None
    return service.storage.pipelines.create(organization.id, NewPipeline("web", "Web", "https://example.org/r", "main"))
