"""`ci-daemon incus` without an engine. What it does with one, `tests/fleet` shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ci_daemon.conftest import Run


@pytest.mark.parametrize("command", ["setup", "status"])
def test_without_an_engine_its_socket_is_named_and_nothing_made(
    run: Run, state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
):
    """A folder of the provider would let the service look for VMs on the engine at each start."""
    socket = tmp_path / "engine.socket"
    (state / "ci-daemon.toml").write_text(f'[incus]\nsocket = "{socket}"\n')
    assert run("incus", command) == 1
    told = f"the engine does not answer ({socket}: No such file or directory): is it running?"
    assert told in capsys.readouterr().err
    assert not (state / "incus").exists()


def test_an_address_without_https_is_refused(run: Run, state: Path, capsys: pytest.CaptureFixture[str]):
    (state / "ci-daemon.toml").write_text('[incus]\naddresses = ["10.1.2.3"]\n')
    assert run("incus", "status") == 1
    assert '"10.1.2.3" is no address of a member: write one like https://10.1.2.3:8443' in capsys.readouterr().err
