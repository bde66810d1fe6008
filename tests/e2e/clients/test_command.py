"""A person signs in a command line with a browser, and follows builds of the real daemon."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.e2e.console.visitor import visitor
from tests.e2e.daemon import Client, Pipeline
from tests.e2e.pipelines import Graph
from tests.processes import ended


class Laptop:
    """A machine without a state directory, by its configuration folder."""

    def __init__(self, home: Path) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith(("CI_DAEMON_", "COVERAGE_"))}
        keyring = "keyring.backends.fail.Keyring"
        places = {"XDG_CONFIG_HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
        self._environ = {**own, **places, "PYTHON_KEYRING_BACKEND": keyring}
        self._home = home

    @contextmanager
    def start(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Start a command, and kill it if the test leaves it behind."""
        with ended(
            subprocess.Popen(
                [sys.executable, "-m", "ci_daemon", *words],
                env=self._environ,
                cwd=self._home,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        ) as command:
            yield command

    def run(self, *words: str, code: int = 0) -> str:
        """Run a command to its end, and return what it prints."""
        with self.start(*words) as command:
            out, err = command.communicate(timeout=120)
        assert command.returncode == code, err
        return out


def test_a_person_signs_in_and_follows_a_build(browser: Browser, client: Client, pipeline: Pipeline, tmp_path: Path):
    laptop = Laptop(tmp_path)
    name = f"{client.org}/{pipeline.slug}/1"
    with visitor(browser, client) as ada, laptop.start("login", ada.url, "--name", "work") as login:
        assert login.stderr is not None
        ada.page.goto(login.stderr.readline().split()[-1])
        ada.page.get_by_role("button", name="Sign in the command line").click()
        expect(ada.page.get_by_text("close this page")).to_be_visible()
        assert "signed in" in login.communicate(timeout=60)[0]
    assert client.email in laptop.run("--context", "work", "whoami")
    kept = Graph().step("make", "echo made; mkdir dist; echo content >dist/a", runner_args={"artifacts": ["dist/**"]})
    pipeline.build(kept.step("fail", "echo broken; exit 3", builds_in="make").ir())
    watched = laptop.run("--context", "work", "build", "watch", name, code=1)
    assert "make  | made" in watched
    assert "fail  | broken" in watched
    listed = json.loads(laptop.run("--context", "work", "build", "list", f"{client.org}/{pipeline.slug}", "--json"))
    assert [each["state"] for each in listed] == ["failed"]
    assert laptop.run("--context", "work", "build", "logs", name, "fail").splitlines() == ["fail  | broken"]
    assert laptop.run("--context", "work", "artifact", "get", name) == f"{pipeline.slug}-1/dist/a\n"
    assert (tmp_path / f"{pipeline.slug}-1" / "dist" / "a").read_text() == "content\n"
    assert f"build/{name}" in (tmp_path / "cache" / "ci-daemon" / "names").read_text().split()
    laptop.run("--context", "work", "logout")
    assert laptop.run("context", "list") == "you are signed in nowhere: `ci-daemon login URL` signs in\n"
