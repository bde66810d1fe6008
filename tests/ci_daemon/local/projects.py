"""A project of one user, and `ci-daemon run` on it as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from actors.vms import Provider
from ci_daemon.config import Config
from ci_daemon.local import LocalFolders, local_config
from ci_daemon.providers import open_images, open_providers
from storage import SystemClock
from tests.e2e.pipelines import Graph
from tests.processes import ended


@dataclass
class Project:
    """A tree whose pipeline is in ``pipeline.json``, and a cache directory.

    ``environ`` is added to the environment of the command, and ``within`` is a program that runs it.
    """

    tree: Path
    cache: Path
    images: Path
    environ: dict[str, str] = field(default_factory=dict)
    within: tuple[str, ...] = ()

    @property
    def state(self) -> Path:
        """Its state directory."""
        return self._folders.project(self.tree)

    @property
    def _folders(self) -> LocalFolders:
        return LocalFolders(self.cache / "ci-daemon")

    def write(self, pipeline: Graph) -> None:
        """Write its pipeline."""
        (self.tree / "pipeline.json").write_text(pipeline.ir())

    def start(self, *arguments: str, **options: Any) -> AbstractContextManager[subprocess.Popen[str]]:
        """Start the command on the pipeline of its file; a block that leaves it running kills it."""
        return self.start_rendered("--ir", str(self.tree / "pipeline.json"), *arguments, **options)

    def start_rendered(self, *arguments: str, **options: Any) -> AbstractContextManager[subprocess.Popen[str]]:
        """Start the command on the tree's pipeline files; a block that leaves it running kills it."""
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} | options
        places = {"XDG_CACHE_HOME": str(self.cache), "CI_DAEMON_IMAGES_DIR": str(self.images)}
        argv = [*self.within, sys.executable, "-m", "ci_daemon", "run", str(self.tree), *arguments]
        return ended(subprocess.Popen(argv, env={**os.environ, **places, **self.environ}, text=True, **streams))

    def run(self, *arguments: str) -> tuple[int, str]:
        """Run the command to its end; return its exit code and its output."""
        with self.start(*arguments) as process:
            printed = rest(process)
            return process.wait(60), printed

    def vms(self) -> list[str]:
        """Return the VMs that are left on the host."""
        with self._provider() as provider:
            return list(provider.list())

    def destroy_vms(self) -> None:
        """Destroy the VMs that a test has left."""
        if self.state.exists():
            with self._provider() as provider:
                for vm in provider.list():
                    provider.destroy(vm)

    def config(self) -> Config:
        """Return the configuration of its builds."""
        return local_config(self._folders, self.tree, {"CI_DAEMON_IMAGES_DIR": str(self.images)})

    @contextmanager
    def _provider(self) -> Iterator[Provider]:
        config = self.config()
        images = open_images(self.state, config)
        with closing(open_providers(self.state, config, images, SystemClock())) as providers:
            yield providers.named("sandbox")


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """Read the output of a process up to the line that contains a text; return that line."""
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if text in line:
            return line
    raise AssertionError(f"it ended without {text!r}: {''.join(seen)}")


def rest(process: subprocess.Popen[str]) -> str:
    """Return all that a process still prints."""
    assert process.stdout is not None
    return process.stdout.read()
