"""Extras of `setup.cfg` that are missing: what uses one says in a sentence how to install it."""

from __future__ import annotations

import os
import subprocess
import sys
from configparser import ConfigParser
from dataclasses import dataclass
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
WITHOUT = """
import sys
sys.modules.update(dict.fromkeys(sys.argv.pop(1).split()))
sys.prefix = sys.argv.pop(1)
from ci_daemon.command import main
sys.exit(main())
"""


@dataclass(frozen=True)
class Use:
    """A command that uses an extra, the package that it brings, and the name of that at an index."""

    command: tuple[str, ...]
    environment: dict[str, str]
    package: str
    distribution: str


USES = {
    "otlp": Use(
        ("serve", "--listen", "127.0.0.1:0"),
        {"CI_DAEMON_TRACING_ENDPOINT": "http://127.0.0.1:4318"},
        "opentelemetry",
        "opentelemetry-exporter-otlp-proto-http",
    ),
}


def test_each_extra_for_users_has_a_case():
    setup = ConfigParser(interpolation=None)
    setup.read(CHECKOUT / "setup.cfg", encoding="utf-8")
    assert setup["options.extras_require"].keys() - {"dev"} == USES.keys()


def run(use: Use, state: Path, missing: str, prefix: str = sys.prefix) -> str:
    """Run a command without packages, to its failure, and return what it says."""
    assert (
        subprocess.run([sys.executable, "-m", "ci_daemon", "--state-dir", state, "init"], check=False).returncode == 0
    )
    argv = [sys.executable, "-c", WITHOUT, missing, prefix, "--state-dir", state, *use.command]
    environment = {**os.environ, **use.environment}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("extra", USES)
def test_without_it_the_command_that_installs_it_is_named(tmp_path: Path, extra: str):
    use = USES[extra]
    said = run(use, tmp_path / "state", use.package)
    assert f'{sys.executable} -m pip install "{use.distribution}' in said
    assert f"ci-daemon[{extra}]" in said


@pytest.mark.parametrize("extra", USES)
def test_where_there_is_no_pip_uv_is_named(tmp_path: Path, extra: str):
    use = USES[extra]
    said = run(use, tmp_path / "state", f"{use.package} pip")
    assert f'uv pip install --python {sys.executable} "{use.distribution}' in said


@pytest.mark.parametrize("extra", USES)
def test_where_there_is_no_environment_a_folder_is_named(tmp_path: Path, extra: str):
    """The portable archive has its packages beside it, and runs with the Python of the system."""
    said = run(USES[extra], tmp_path / "state", USES[extra].package, sys.base_prefix)
    assert f'pip install --target {CHECKOUT} "{USES[extra].distribution}' in said
