"""Pictures of the console for the docs: ``python -m tests.e2e.console.pictures FOLDER``."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from playwright.sync_api import Browser, FloatRect, expect

from storage import Storage, SystemClock
from tests.e2e.browser import chromium
from tests.e2e.console.visitor import Visitor, visitor
from tests.e2e.daemon import Client, Daemon, Pipeline
from tests.git_repository import GitRepository
from tests.state import new_storage

_LOG = (
    r"printf '\033[1mRunning 412 tests\033[0m\n'; echo '::group::Set up'; echo 'database: ready'; echo '::endgroup::';"
    r" for i in $(seq 1 18); do"
    r" printf '\033[32mPASS\033[0m tests/test_%02d.py \033[2m(%d ms)\033[0m\n' $i $((i * 37 % 90));"
    r" sleep 0.05; done; $REPORT $FAIL printf '\033[32m412 passed\033[0m\n'"
)
_FAILURE = (
    r"printf '\033[31mFAIL\033[0m tests/test_19.py\n  \033[31mAssertionError\033[0m: expected 200, not 503\n'; exit 1;"
)
_REPORT = """cat > report.xml <<X
<testsuite>
<testcase classname="tests.test_19" name="answers while the server restarts" time="0.41">$CASE</testcase>
<testcase classname="tests.test_19" name="answers at once" time="0.02"/>
<testcase classname="tests.test_07" name="sends mail"><skipped message="needs a mail server"/></testcase>
</testsuite>
X
"""
_CASE = """<failure message="expected 200, not 503">
tests/test_19.py:31: in test_answers_while_the_server_restarts
    assert answer.status == 200
AssertionError: expected 200, not 503</failure>"""
_KEYS = ("checkout", "lint", "compile", "unit", "browser", "package", "deploy")
_EDGES = [[0, 1], [0, 2], [2, 3], [2, 4], [1, 5], [3, 5], [4, 5], [5, 6]]
_MARGIN = 24


def _pipeline(*, fails: bool, compiles: float) -> str:
    report = _REPORT.replace("$CASE", _CASE if fails else "")
    commands = {
        "checkout": "sleep 0.3",
        "lint": "sleep 0.4",
        "compile": f"sleep {compiles}",
        "unit": _LOG.replace("$REPORT", report).replace("$FAIL", _FAILURE if fails else ""),
        "browser": "sleep 0.8",
    }
    kept = {"unit": {"artifacts": ["report.xml"]}}
    nodes = [
        {
            "step": {
                "key": key,
                "cmd": commands.get(key, "sleep 0.2"),
                "label": key.capitalize(),
                "runner_args": kept.get(key, {}),
            },
            "env": {},
        }
        for key in _KEYS
    ]
    return json.dumps({"version": "0", "graph": {"nodes": nodes, "edges": [[*edge, "depends_on"] for edge in _EDGES]}})


@contextmanager
def _daemon(folder: Path) -> Iterator[Daemon]:
    images = os.environ["CI_DAEMON_IMAGES_DIR"]
    settings = {"CI_DAEMON_POOL_MAX_VMS": "4", "CI_DAEMON_BILLING_CPU": "2000000"}
    daemon = Daemon(folder / "state", {"CI_DAEMON_IMAGES_DIR": images, **settings})
    new_storage(folder / "state", SystemClock()).close()
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.stop()
        daemon.end_vms()


def _connect(client: Client, folder: Path) -> None:
    """Connect repositories on this host, as its owner does."""
    with closing(Storage.open(client.daemon.state, SystemClock())) as storage:
        organization = storage.organizations.by_slug(client.org)
        assert organization is not None
        for name in ("web", "docs"):
            remote = GitRepository(folder / name, name)
            remote.commit()
            remote.push("main")
            storage.repositories.connect(organization.id, str(remote.bare), f"acme/{name}", 60)


def _build(
    pipeline: Pipeline, message: str, *, fails: bool = False, branch: str = "main", compiles: float = 1.2
) -> str:
    ir = _pipeline(fails=fails, compiles=compiles)
    return pipeline.build(ir, message=message, branch=branch, commit="c0ffee" * 6 + "c0de").path


def _finished(ada: Visitor, path: str, state: str) -> None:
    ada.open(f"/{path}")
    expect(ada.page.locator("#summary")).to_have_attribute("data-state", state)


def _take(browser: Browser, client: Client, folder: Path) -> None:
    pipeline = client.pipeline("Web shop")
    with (
        visitor(browser, client, width=1120) as ada,
        visitor(browser, client, width=1120, theme="dark") as eve,
        visitor(browser, client, width=360) as tom,
    ):

        def shoot(name: str, who: Visitor = ada) -> None:
            end = who.page.evaluate("document.querySelector('main').lastElementChild.getBoundingClientRect().bottom")
            size = who.page.viewport_size
            assert size is not None
            height = min(size["height"], end + _MARGIN)
            shown = FloatRect(x=0, y=0, width=size["width"], height=height)
            who.page.screenshot(path=folder / f"{name}.png", clip=shown)

        for message, fails in (("Begin", False), ("Cache the dependencies", False), ("Try the new server", True)):
            _finished(ada, _build(pipeline, message, fails=fails), "failed" if fails else "passed")
        path = _build(pipeline, "Retry requests that time out\n\nThe server restarts at times.", branch="retries")
        ada.open(f"/{path}")
        expect(ada.page.locator("#job-2 .state")).to_have_text("Running")
        shoot("build-live")
        _finished(ada, path, "passed")
        ada.open(f"/{path}?view=graph")
        shoot("build-graph")
        ada.open(f"/{path}?view=time")
        shoot("build-time-line")
        failed = _build(pipeline, "Answer faster", fails=True)
        _finished(ada, failed, "failed")
        ada.open(f"/{failed}?view=tests")
        shoot("build-tests")
        ada.open(f"/{failed}")
        ada.page.get_by_role("link", name="Unit", exact=True).click()
        eve.page.goto(ada.page.url)
        expect(eve.page.locator(".line").first).to_be_visible()
        shoot("log-dark", eve)
        tom.open(f"/{failed}")
        shoot("build-narrow", tom)
        _finished(ada, _build(pipeline, "Count the requests"), "passed")
        _build(pipeline, "Count the answers", compiles=60)
        ada.page.goto(f"{ada.url}/")
        expect(ada.page.get_by_text("Running", exact=True).first).to_be_visible(timeout=30_000)
        shoot("home")
        ada.open(f"/pipelines/{pipeline.slug}")
        shoot("pipeline")
        expect(ada.open("/repositories").get_by_text("looked at")).to_have_count(2, timeout=30_000)
        shoot("repositories")
        expect(ada.open("/billing").locator(".uplot").first).to_be_visible()
        shoot("billing")


def main(folder: Path) -> None:
    """Take the pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary, _daemon(Path(temporary)) as daemon, chromium() as browser:
        client = Client.create(daemon, "ada@example.org")
        _connect(client, Path(temporary))
        _take(browser, client, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
