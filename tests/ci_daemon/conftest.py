"""A state directory, and `ci-daemon` run on it in this process.

A module whose tests need a filled state directory overrides ``state``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.vms import ImageSettings, Provider
from ci_daemon.command import main
from ci_daemon.config import Config
from ci_daemon.providers import open_images, open_providers
from storage import Storage, SystemClock
from tests.state import new_storage

Run = Callable[..., int]
RunJson = Callable[..., Any]


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let commands remember names, and keep images, in no cache of the caller's."""
    with pytest.MonkeyPatch.context() as environ:
        environ.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def state(tmp_path: Path) -> Path:
    new_storage(tmp_path / "state", SystemClock()).close()
    return tmp_path / "state"


@pytest.fixture
def storage(state: Path) -> Iterator[Storage]:
    storage = Storage.open(state, SystemClock())
    yield storage
    storage.close()


@pytest.fixture
def run(state: Path, images_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("CI_DAEMON_IMAGES_DIR", str(images_dir))
    return lambda *arguments: main(["--state-dir", str(state), *arguments])


@pytest.fixture
def run_json(run: Run, capsys: pytest.CaptureFixture[str]) -> RunJson:
    """Run a command with ``--json``, and return its document."""

    def run_json(*arguments: str) -> Any:
        assert run(*arguments, "--json") == 0
        return json.loads(capsys.readouterr().out)

    return run_json


@pytest.fixture
def provider(state: Path, images_dir: Path) -> Iterator[Provider]:
    config = Config(images=ImageSettings(dir=images_dir))
    provider = open_providers(state, config, open_images(state, config), SystemClock()).named("sandbox")
    yield provider
    for vm_id in provider.list():
        provider.destroy(vm_id)
