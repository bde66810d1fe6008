"""Scripts of builds for the scripted service."""

from __future__ import annotations

from collections.abc import Callable

from storage import BuildState
from tests.ci_daemon.scripted_service import ScriptedBuild

Submit = Callable[..., int]


FORK = {
    "version": "0",
    "graph": {
        "nodes": [
            {"step": {"key": "install", "cmd": "true", "label": "Install"}, "env": {}},
            {"step": {"key": "lint", "cmd": "true", "label": "Lint"}, "env": {}},
            {"step": {"key": "test", "cmd": "true", "label": "test"}, "env": {}},
        ],
        "edges": [[0, 1, "builds_in"], [0, 2, "builds_in"]],
    },
}


def passing(build: ScriptedBuild) -> None:
    build.run("install", "installed\n", seconds=100)
    build.run("lint", "clean\n")
    build.run("test", "ok\n", seconds=200)
    build.move_build(BuildState.PASSED)
