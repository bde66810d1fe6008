from __future__ import annotations

import io
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import falcon
import falcon.testing
import pytest

from api.middleware.idempotency import DurableAnswers
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


def test_the_server_may_hold_an_answer_that_is_not_on_the_disk(storage: Storage, monkeypatch: pytest.MonkeyPatch):
    """The thread that serves would keep all others from being served."""
    disk = HeldDisk(monkeypatch)
    waits: list[Callable[[], None] | None] = []

    class Users:
        def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
            storage.users.create(f"{req.get_param('name')}@example.org", "New")
            if req.get_param_as_bool("stream"):
                resp.stream = io.BytesIO(b"a body that may be long")

    app = falcon.App(middleware=[DurableAnswers(storage)])
    app.add_route("/", Users())

    def hold(wait: Callable[[], None] | None) -> bool:
        waits.append(wait)
        return wait is not None

    def post(query: str) -> int:
        falcon.testing.simulate_post(app, f"/?{query}", extras={"ci_daemon.hold_answer": hold})
        return disk.syncs

    assert post("name=held") == 0
    wait = waits.pop()
    assert wait is not None
    wait()
    assert disk.syncs == 1
    assert post("name=streamed&stream=true") == 2
    assert waits == [None]
