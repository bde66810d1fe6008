from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import falcon
import falcon.testing
import pytest

from api.middleware.durable_answers import DurableAnswers
from storage import Storage
from tests.clock import ManualClock
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


def test_a_request_waits_once_for_all_that_it_writes(storage: Storage, monkeypatch: pytest.MonkeyPatch):
    disk = HeldDisk(monkeypatch)

    class Users:
        def on_post(self, _req: falcon.Request, resp: falcon.Response) -> None:
            for number in range(3):
                storage.users.create(f"new{number}@example.org", "New")
            resp.media = disk.syncs

    app = falcon.App(middleware=[DurableAnswers(storage)])
    app.add_route("/", Users())
    assert falcon.testing.simulate_post(app, "/").json == 0
    assert disk.syncs == 1
    storage.users.create("after@example.org", "After")
    assert disk.syncs == 2


def test_where_syncs_take_long_another_thread_serves(
    storage: Storage, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
):
    """The server's thread that leads would keep all others from being served."""
    disk = HeldDisk(monkeypatch)
    waits: list[int] = []

    class Users:
        def on_post(self, req: falcon.Request, _resp: falcon.Response) -> None:
            storage.users.create(f"{req.get_param('name')}@example.org", "New")

    app = falcon.App(middleware=[DurableAnswers(storage)])
    app.add_route("/", Users())

    def post(name: str) -> None:
        extras = {"waitress.client_disconnected": lambda: waits.append(disk.syncs)}
        falcon.testing.simulate_post(app, f"/?name={name}", extras=extras)

    with ThreadPoolExecutor() as threads:
        with disk.held():
            posting = threads.submit(post, "first")
            disk.await_sync()
            clock.advance(seconds=1)
        posting.result(60)
    assert waits == []
    post("second")
    assert waits == [1]
