from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import falcon
import falcon.testing
import pytest

from api.middleware.durable_answers import DurableAnswers
from storage import Storage
from tests.held_disk import HeldDisk
from tests.waiting import until


def test_an_answer_waits_for_what_another_thread_wrote(storage: Storage, monkeypatch: pytest.MonkeyPatch):
    """A power cut would take back what the answer tells of."""
    disk = HeldDisk(monkeypatch)

    class Users:
        def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
            resp.media = storage.users.by_email("new@example.org") is not None

    app = falcon.App(middleware=[DurableAnswers(storage)])
    app.add_route("/", Users())

    def ask() -> tuple[bool, int]:
        return falcon.testing.simulate_get(app, "/").json, disk.syncs

    with ThreadPoolExecutor() as threads:
        with disk.held():
            threads.submit(storage.users.create, "new@example.org", "New")
            until(lambda: storage.users.by_email("new@example.org"), "the commit")
            answer = threads.submit(ask)
        assert answer.result(60) == (True, 1)
