from __future__ import annotations

import json
import socket
import threading
from pathlib import Path
from select import select

import pytest

from api import CannotListen, HttpSettings, Server
from api.http import workers as turns
from tests.api.http.served import Served, answer, refusal, serving
from tests.waiting import until


def test_a_connection_serves_requests_one_after_the_other(served: Served):
    connection = served.connect()
    for _ in range(3):
        response = answer(connection, served.request("GET", "/api/v0/user"))
        assert json.loads(response.read())["email"] == "ada@example.org"


def test_requests_sent_at_once_are_answered_in_order(served: Served):
    connection = served.connect()
    connection.sendall(served.request("GET", "/api/v0/user") + served.request("GET", "/api/v0/ping"))
    received = b""
    while b'{"status":"ok"}' not in received:
        received += connection.recv(4096)

    assert received.count(b"HTTP/1.1 200 OK") == 2
    assert received.index(b"ada@example.org") < received.index(b'{"status":"ok"}')


def test_many_clients_at_once_are_all_answered(served: Served):
    failures: list[BaseException] = []

    def ask() -> None:
        connection = served.connect()
        try:
            for _ in range(200):
                assert b"ada@example.org" in answer(connection, served.request("GET", "/api/v0/user")).read()
        except BaseException as error:  # noqa: BLE001 - the test's thread reports it
            failures.append(error)

    clients = [threading.Thread(target=ask) for _ in range(12)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()

    assert not failures


def test_a_delivery_waits_for_a_pause_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(turns, "_REPORT_SECONDS", 600.0)
    with serving(tmp_path / "state", stop_timeout=0.0) as served:
        delivery = served.request("POST", "/webhooks/git", "Content-Length: 0")
        assert refusal(served.send(delivery)) == (401, "unauthorized")
        waiting = served.connect()
        waiting.sendall(delivery)

        assert served.get("/api/v0/user").status == 200
        assert select([waiting], [], [], 0) == ([], [], [])


def test_a_change_that_waits_for_another_delays_no_reader(served: Served):
    changing = served.connect()
    body = b'{"name": "Augusta"}'
    headers = ("Content-Type: application/json", f"Content-Length: {len(body)}")
    reader = served.connect()
    with served.world.storage.transaction():
        changing.sendall(served.request("PATCH", "/api/v0/user", *headers, body=body))
        for _ in range(50):
            assert answer(reader, served.request("GET", "/api/v0/user")).read()
        assert not select([changing], [], [], 0)[0]

    assert b"Augusta" in answer(changing).read()


def test_error_pages_are_where_the_server_is(served: Served):
    error = json.loads(served.get("/api/nothing").read())["error"]

    assert error["doc_url"] == f"http://{served.server.address}/docs/errors/route_not_found"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        b"get / HTTP/1.1\r\nHost: ci\r\n\r\n",
        b"GET  / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost ci\r\n\r\n",
        b"GET / HTTP/1.1\r\n: ci\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: ci\r\nA: b\rc\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: ci\nA: b\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1, 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nnothex\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;" + b"x" * 6000,
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"x: y\r\n" * 1000,
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 3000,
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + b"\r\n" * 9000,
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"GET http://[::1/ HTTP/1.1\r\nHost: ci\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01",
    ],
)
def test_a_malformed_request_is_answered_in_the_envelope(served: Served, request_bytes: bytes):
    assert refusal(served.send(request_bytes)) == (400, "malformed_request")


def test_a_refused_request_keeps_its_id(served: Served):
    given = "an-id-of-twenty-chars"
    response = served.send(f"POST / HTTP/1.1\r\nX-Request-Id: {given}\r\nContent-Length: x\r\n\r\n".encode())

    assert response.headers["X-Request-Id"] == given
    assert refusal(response) == (400, "malformed_request")


def test_a_refused_connection_is_closed(served: Served):
    connection = served.connect()
    assert refusal(answer(connection, b"nonsense\r\n\r\n")) == (400, "malformed_request")

    assert connection.recv(1) == b""


def test_a_refused_client_that_does_not_leave_is_left(served: Served):
    connection = served.connect()
    assert refusal(answer(connection, b"nonsense\r\n\r\n")) == (400, "malformed_request")

    def closed() -> bool:
        try:
            connection.sendall(b"more")
        except ConnectionError:
            return True
        return False

    until(closed, "its end")


def test_a_client_that_takes_too_long_to_ask_is_hung_up_on(tmp_path: Path):
    with serving(tmp_path / "state", receive_timeout=1.0) as served:
        for start in (b"GET / HTTP/1.1\r\nX: ", b"POST / HTTP/1.1\r\nContent-Length: 1000\r\n\r\nx"):
            connection = served.connect()
            connection.sendall(start)
            connection.settimeout(0.1)

            def closed(connection: socket.socket = connection) -> bool:
                try:
                    connection.sendall(b"x")
                    return connection.recv(1) == b""
                except TimeoutError:
                    return False
                except ConnectionError:
                    return True

            until(closed, "the end of the connection")


def test_idle_connections_give_way_when_all_are_taken(tmp_path: Path):
    """Those that keep the server waiting longest are closed."""

    with serving(tmp_path / "state", max_connections=2) as served:
        idle, slow = served.connect(), served.connect()
        slow.sendall(b"GET /api/v0/ping HTTP/1.1\r\nX: ")

        assert served.get("/api/v0/user").status == 200
        assert idle.recv(1) == b""


def test_an_address_in_use_is_reported(served: Served):
    with pytest.raises(CannotListen, match=f"cannot listen on {served.server.address}: Address already in use; stop"):
        Server(HttpSettings(listen=served.server.address))


def test_a_missing_address_is_reported():
    with pytest.raises(CannotListen, match=r"^cannot listen on 203\.0\.113\.1:80: [A-Za-z ]+; change http"):
        Server(HttpSettings(listen="203.0.113.1:80"))


def test_a_server_that_was_never_started_can_be_closed():
    server = Server(HttpSettings(listen="[::1]:0"))
    assert server.settings.url.startswith("http://[::1]:")
    server.close()
