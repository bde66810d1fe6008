"""Others are served while answers wait (engine.md, "After a crash")."""

from __future__ import annotations

import errno
import http.client
import json
import os
from select import select

import pytest

from api.http import workers
from tests.api.http.served import Served, answer, refusal
from tests.held_disk import HeldDisk
from tests.state import run_sql
from tests.waiting import until


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the thread that leads lead on, however long its first request takes on a busy machine."""
    monkeypatch.setattr(workers, "_LONG_SECONDS", 600.0)


@pytest.fixture
def disk(served: Served, monkeypatch: pytest.MonkeyPatch) -> HeldDisk:
    return HeldDisk(monkeypatch)


def _change(served: Served, number: int, *headers: str) -> bytes:
    body = json.dumps({"name": f"Ada {number}"}).encode()
    fixed = ("Content-Type: application/json", f"Content-Length: {len(body)}")
    return served.request("PATCH", "/api/v0/user", *fixed, *headers, body=body)


def _changes(served: Served) -> int:
    return int(run_sql(served.world.storage.directory, "SELECT count(*) FROM audit_entries")[0][0])


def test_answers_that_wait_at_once_share_a_sync(served: Served, disk: HeldDisk):
    """They are more than there are threads."""
    before, clients = _changes(served), [served.connect() for _ in range(20)]
    with disk.held():
        for number, client in enumerate(clients):
            client.sendall(_change(served, number))
        until(lambda: _changes(served) == before + 20, "the commits of all")
        assert select(clients, [], [], 0) == ([], [], [])
    assert [answer(client).status for client in clients] == [200] * 20
    assert disk.syncs == 2


def test_requests_sent_at_once_are_answered_from_the_disk(served: Served, disk: HeldDisk):
    client = served.connect()
    with disk.held():
        client.sendall(_change(served, 1) + _change(served, 2))
        disk.await_sync()
        assert select([client], [], [], 0) == ([], [], [])
    received = b""
    while b'"Ada 2"' not in received:
        received += client.recv(4096)
    assert received.count(b"HTTP/1.1 200 OK") == 2
    assert received.index(b'"Ada 1"') < received.index(b'"Ada 2"')


def test_a_held_answer_may_be_the_last_of_its_connection(served: Served, disk: HeldDisk):
    client = served.connect()
    with disk.held():
        client.sendall(_change(served, 1, "Connection: close"))
        disk.await_sync()
    response = answer(client)
    assert response.status == 200
    assert b"Ada 1" in response.read()
    assert client.recv(1) == b""


def test_a_connection_goes_on_after_a_held_answer(served: Served, disk: HeldDisk):
    client = served.connect()
    for number in range(20):
        response = answer(client, _change(served, number))
        assert (response.status, json.loads(response.read())["name"]) == (200, f"Ada {number}")


def test_what_the_disk_did_not_keep_is_not_told(served: Served, disk: HeldDisk):
    client = served.connect()
    disk.failure = OSError(errno.EIO, os.strerror(errno.EIO))
    response = answer(client, _change(served, 1, "X-Request-Id: the-one-of-the-caller"))
    assert response.headers["Retry-After"] == "1"
    assert response.headers["X-Request-Id"] == "the-one-of-the-caller"
    assert refusal(response) == (503, "busy")
    assert client.recv(1) == b""


def test_who_hangs_up_leaves_the_others_their_answers(served: Served, disk: HeldDisk):
    leaving, staying = served.connect(), served.connect()
    with disk.held():
        leaving.sendall(_change(served, 1))
        disk.await_sync()
        leaving.close()
        staying.sendall(_change(served, 2))
    response: http.client.HTTPResponse = answer(staying)
    assert b"Ada 2" in response.read()


def test_a_health_check_waits_for_nobodys_changes(served: Served, disk: HeldDisk):
    client, checking = served.connect(), served.connect()
    with disk.held():
        client.sendall(_change(served, 1))
        disk.await_sync()
        assert answer(checking, served.request("GET", "/healthz")).status == 200
    assert answer(client).status == 200


def test_a_health_check_fails_once_the_disk_has_failed(served: Served, disk: HeldDisk):
    disk.failure = OSError(errno.EIO, os.strerror(errno.EIO))
    assert refusal(answer(served.connect(), _change(served, 1))) == (503, "busy")
    assert refusal(answer(served.connect(), served.request("GET", "/healthz"))) == (503, "busy")
