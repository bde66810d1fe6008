"""Left by other projects: VMs of killed commands, and states that nobody uses."""

from __future__ import annotations

import os
import time

from ci_daemon.host.lock import LOCK
from ci_daemon.local.cleaning import UNUSED_SECONDS
from tests.ci_daemon.local.projects import Project, read_until
from tests.e2e.pipelines import Graph


def test_a_run_cleans_up_after_other_projects(project: Project):
    other = Project(project.tree.parent / "other", project.cache, project.images)
    other.tree.mkdir()
    project.write(Graph().step("long", "echo began; sleep 600"))
    other.write(Graph().step("quick", "echo made >/made", cache={"policy": "forever", "key": "k"}))
    with project.start() as process:
        read_until(process, "long  | began")
        assert other.run()[0] == 0
        assert project.vms() != []
        process.kill()
    assert other.run()[0] == 0
    assert project.vms() == []

    long_ago = time.time() - UNUSED_SECONDS - 60
    os.utime(other.state / LOCK, (long_ago, long_ago))
    project.write(Graph().step("quick", "true"))
    assert project.run()[0] == 0
    assert not other.state.exists()
    assert project.state.exists()
