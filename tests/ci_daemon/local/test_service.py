"""The end of the engine inside of a command: nothing is left, or the command says so."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pykka
import pytest

from actors.vms import VmError
from actors.vms.sandbox import provider
from ci_daemon.command import main
from ci_daemon.local import LocalService, service
from tests.ci_daemon.local.projects import Project
from tests.e2e.pipelines import Graph


class Interrupted(ThreadPoolExecutor):
    """Threads whose caller is interrupted as soon as the start of an engine is submitted."""

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        submitted = super().submit(function, *arguments, **named)
        if function.__name__ == "_start":
            raise KeyboardInterrupt
        return submitted


@contextmanager
def running(project: Project) -> Iterator[LocalService]:
    """Run the engine of a project."""
    config = project.config()
    project.state.parent.mkdir(parents=True)
    with service.local_service(project.state, config, lambda _: None) as running:
        yield running


def test_an_interrupted_start_leaves_no_engine(project: Project, monkeypatch: pytest.MonkeyPatch):
    """The caller does not know that the engine starts."""
    monkeypatch.setattr(service, "ThreadPoolExecutor", Interrupted)
    with pytest.raises(KeyboardInterrupt), running(project) as local:
        local.begin()
    assert pykka.ActorRegistry.get_all() == []
    assert project.vms() == []


def test_threads_do_not_import_a_circle_at_once():
    """The main thread needs `importlib.abc`, and so a part of `importlib.resources`, the engine all."""
    loaded = "import ci_daemon.local.service, sys; sys.exit('importlib.resources.abc' not in sys.modules)"
    assert subprocess.run([sys.executable, "-c", loaded], check=False).returncode == 0


def refuse(*_: object) -> None:
    raise VmError("a group is busy")


def test_an_interrupted_command_says_what_it_leaves(project: Project, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(provider, "remove_groups", refuse)

    def interrupt() -> None:
        with running(project) as local:
            local.begin().result()
            raise KeyboardInterrupt

    with pytest.raises(VmError, match=r"a part of a VM is left, .*: a group is busy"):
        interrupt()
    monkeypatch.undo()
    assert len(project.vms()) == 1


def test_a_passed_build_that_leaves_something_ends_with_an_error(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    project.write(Graph().step("only", "true"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(project.cache))
    monkeypatch.setenv("CI_DAEMON_IMAGES_DIR", str(project.images))
    monkeypatch.setattr(provider, "remove_groups", refuse)
    code = main(["run", str(project.tree), "--ir", str(project.tree / "pipeline.json")])
    printed = capsys.readouterr()
    assert "build #1 passed" in printed.out
    assert "ci-daemon: a part of a VM is left, which the next `ci-daemon run` removes: a group is busy" in printed.err
    assert code == 1
