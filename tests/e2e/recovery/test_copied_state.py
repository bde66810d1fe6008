"""A copy of the state directory of a running service: its service leaves the original's VMs alone."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.daemon import Client, Daemon, ForkedDaemon
from tests.e2e.pipelines import one
from tests.sleeper import Sleeper
from tests.waiting import until


@pytest.fixture
def daemons(images_dir: Path, tmp_path: Path) -> Iterator[tuple[Daemon, Daemon]]:
    """A daemon, and one in a folder that does not exist yet."""
    settings = {"CI_DAEMON_IMAGES_DIR": str(images_dir), "CI_DAEMON_POOL_PARKED": "1"}
    both = ForkedDaemon(tmp_path / "original", settings), ForkedDaemon(tmp_path / "copy", settings)
    both[0].command("init")
    yield both
    for daemon in both:
        daemon.kill()
        daemon.command("lease", "kill", "--all", check=False)


def test_a_copy_is_served_only_once_its_owner_says_what_it_is(daemons: tuple[Daemon, Daemon]):
    original, copy = daemons
    original.start()
    sleeper = Sleeper()
    build = Client.create(original, "ada@example.org").pipeline().build(one(f"echo begun; {sleeper.command} || true"))
    sleeper.wait_for(runs=True)
    build.says("begun")
    subprocess.run(["cp", "-a", str(original.state), str(copy.state)], check=True)
    for arguments in (("serve",), ("lease", "kill", "--all")):
        refused = copy.command(*arguments, check=False)
        assert refused.returncode == 1
        assert "ci-daemon claim --copy" in refused.stderr
    assert json.loads(copy.command("status", "--json", check=False).stdout)["copied"] is True
    assert "is a copy of a state directory" in copy.command("doctor", check=False).stdout
    assert "VMs forgotten" in copy.command("claim", "--copy").stdout
    copy.start()
    theirs = Client(copy, build.client.email, build.client.org, build.client.token)
    again = type(build)(theirs, build.path)
    until(lambda: again.jobs()["only"]["attempt"] == 2, "another attempt in a VM of the copy")
    again.job("only", "running")
    assert build.jobs()["only"]["state"] == "running"
    sleeper.stop()
    assert build.finish()["state"] == "passed"
    assert build.jobs()["only"]["attempt"] == 1
    copy.stop()
    shutil.move(original.state, original.state.with_name("moved"))
    ForkedDaemon(original.state.with_name("moved"), {}).command("lease", "kill", "--all")
