"""Pictures of the console for the docs: ``python -m tests.e2e.console.pictures FOLDER``."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, expect

from storage import SystemClock
from tests.e2e.browser import chromium
from tests.e2e.console.visitor import Visitor, visitor
from tests.e2e.daemon import Client, Daemon, Pipeline
from tests.state import new_storage

_LOG = (
    r"printf '\033[1mRunning 412 tests\033[0m\n'; echo '::group::Set up'; echo 'database: ready'; echo '::endgroup::';"
    r" for i in $(seq 1 18); do"
    r" printf '\033[32mPASS\033[0m tests/test_%02d.py \033[2m(%d ms)\033[0m\n' $i $((i * 37 % 90));"
    r" sleep 0.05; done; $FAIL printf '\033[32m412 passed\033[0m\n'"
)
_FAILURE = (
    r"printf '\033[31mFAIL\033[0m tests/test_19.py\n  \033[31mAssertionError\033[0m: expected 200, not 503\n'; exit 1;"
)
_KEYS = ("checkout", "lint", "compile", "unit", "browser", "package", "deploy")
_EDGES = [[0, 1], [0, 2], [2, 3], [2, 4], [1, 5], [3, 5], [4, 5], [5, 6]]


def _pipeline(*, fails: bool) -> str:
    commands = {
        "checkout": "sleep 0.3",
        "lint": "sleep 0.4",
        "compile": "sleep 1.2",
        "unit": _LOG.replace("$FAIL", _FAILURE if fails else ""),
        "browser": "sleep 0.8",
    }
    nodes = [
        {"step": {"key": key, "cmd": commands.get(key, "sleep 0.2"), "label": key.capitalize()}, "env": {}}
        for key in _KEYS
    ]
    return json.dumps({"version": "0", "graph": {"nodes": nodes, "edges": [[*edge, "depends_on"] for edge in _EDGES]}})


@contextmanager
def _daemon(folder: Path) -> Iterator[Daemon]:
    images = os.environ["CI_DAEMON_IMAGES_DIR"]
    daemon = Daemon(folder / "state", {"CI_DAEMON_IMAGES_DIR": images, "CI_DAEMON_POOL_MAX_VMS": "4"})
    new_storage(folder / "state", SystemClock()).close()
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.stop()
        daemon.command("lease", "kill", "--all")


def _build(pipeline: Pipeline, message: str, *, fails: bool = False, branch: str = "main") -> str:
    return pipeline.build(_pipeline(fails=fails), message=message, branch=branch, commit="c0ffee" * 6 + "c0de").path


def _finished(ada: Visitor, path: str, state: str) -> None:
    ada.open(f"/{path}")
    expect(ada.page.locator("#summary")).to_have_attribute("data-state", state, timeout=60_000)


def _take(browser: Browser, client: Client, folder: Path) -> None:
    pipeline = client.pipeline()
    with (
        visitor(browser, client) as ada,
        visitor(browser, client, theme="dark") as eve,
        visitor(browser, client, width=360) as tom,
    ):

        def shoot(name: str, who: Visitor = ada) -> None:
            who.page.screenshot(path=folder / f"{name}.png")

        for message, fails in (("Begin", False), ("Cache the dependencies", False), ("Try the new server", True)):
            _finished(ada, _build(pipeline, message, fails=fails), "failed" if fails else "passed")
        path = _build(pipeline, "Retry requests that time out\n\nThe server restarts at times.", branch="retries")
        ada.open(f"/{path}")
        expect(ada.page.locator("#job-2 .state")).to_have_text("Running", timeout=30_000)
        shoot("build-live")
        _finished(ada, path, "passed")
        ada.open(f"/{path}?view=graph")
        shoot("build-graph")
        ada.open(f"/{path}?view=time")
        shoot("build-time-line")
        failed = _build(pipeline, "Answer faster", fails=True)
        _finished(ada, failed, "failed")
        shoot("build-failed")
        ada.page.get_by_role("link", name="Unit", exact=True).click()
        expect(ada.page.locator(".line").first).to_be_visible()
        shoot("log")
        eve.page.goto(ada.page.url)
        expect(eve.page.locator(".line").first).to_be_visible()
        shoot("log-dark", eve)
        tom.open(f"/{failed}")
        shoot("build-narrow", tom)
        _build(pipeline, "Count the requests")
        ada.page.goto(f"{ada.url}/")
        shoot("home")
        ada.open()
        shoot("pipelines")
        ada.open(f"/pipelines/{pipeline.slug}")
        expect(ada.page.locator(".uplot").first).to_be_visible()
        shoot("pipeline")
        for page in ("repositories", "billing"):
            ada.open(f"/{page}")
            shoot(page)


def main(folder: Path) -> None:
    """Take the pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, _daemon(Path(temporary)) as daemon, chromium() as browser:
        _take(browser, Client.create(daemon, "ada@example.org"), folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
