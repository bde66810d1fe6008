from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from ci_daemon.doctor import service


def test_an_address_in_use_is_reported(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        check = service.address(tmp_path, listen)
    assert not check.ok
    assert check.detail.startswith(f"the service cannot listen on {listen}: Address already in use")
    assert service.address(tmp_path, "127.0.0.1:0").ok


@pytest.mark.parametrize(
    ("enabled", "active", "detail", "fix"),
    [
        ("enabled", "active", "runs, and starts at boot", None),
        ("enabled", "failed", "is failed", "systemctl start ci-daemon.service"),
        ("disabled", "active", "is disabled", "systemctl enable ci-daemon.service"),
        ("not-found", "inactive", "is not installed", "ci-daemon install"),
    ],
)
def test_a_service_without_systemd_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enabled: str, active: str, detail: str, fix: str | None
):
    (tmp_path / "systemctl").write_text(f"#!/bin/sh\n[ $1 = is-enabled ] && echo {enabled} || echo {active}\n")
    (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert list(service.unit(tmp_path, systemd=tmp_path)) == []
    (check,) = service.unit(Path("/var/lib/ci-daemon"), systemd=tmp_path)
    assert detail in check.detail
    assert check.fix == fix


def test_the_starter_is_the_units_not_that_of_the_shell(tmp_path: Path):
    assert service.environment(Path("/var/lib/ci-daemon"), {"PATH": "/bin"}).keys() == {"PATH", "CI_DAEMON_STARTER"}
    assert service.environment(tmp_path, {"PATH": "/bin"}) == {"PATH": "/bin"}
