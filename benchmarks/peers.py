"""Other runners of 100 jobs of `true` on this machine, without isolation: what a job costs at least."""

from __future__ import annotations

import shutil
import subprocess
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.org")


def shell_loop(jobs: int) -> float:
    """Run `sh -c true` that often, one after the other, and return the milliseconds for each."""
    started = perf_counter()
    for _ in range(jobs):
        subprocess.run(["sh", "-c", "true"], check=True)
    return (perf_counter() - started) * 1000 / jobs


class GitlabCiLocal:
    """gitlab-ci-local (npm) with its shell executor, for a repository with the given number of jobs."""

    def __init__(self, folder: Path, jobs: int, *, chain: bool, at_once: int) -> None:
        self._folder = folder
        self._jobs = jobs
        self._at_once = at_once
        folder.mkdir()
        lines = []
        for number in range(jobs):
            needs = [f"job{number - 1}"] if chain and number else []
            lines.append(f"job{number}: {{script: ['true'], needs: {needs}}}\n")
        (folder / ".gitlab-ci.yml").write_text("".join(lines), encoding="ascii")
        origin = ["remote", "add", "origin", "https://example.org/bench/bench.git"]
        for command in (["init", "--quiet"], origin, ["add", "."], ["commit", "--quiet", "--message", "jobs"]):
            subprocess.run([*_GIT, *command], cwd=folder, check=True)

    @staticmethod
    def installed() -> bool:
        """Tell whether the program and rsync, which it needs, are there."""
        return all(map(shutil.which, ("gitlab-ci-local", "rsync")))

    def run(self) -> float:
        """Run all jobs and return the milliseconds for each."""
        argv = ["gitlab-ci-local", "--force-shell-executor", "--concurrency", str(self._at_once)]
        started = perf_counter()
        subprocess.run(argv, cwd=self._folder, check=True, stdout=subprocess.DEVNULL)
        return (perf_counter() - started) * 1000 / self._jobs
