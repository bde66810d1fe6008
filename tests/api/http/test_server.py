from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from select import select
from typing import Any

import pytest

from api import CannotListen, HttpSettings, Server, create_app
from storage import Storage, SystemClock
from tests.api.logs.test_events import events
from tests.api.world import Account, JobPath, World
from tests.fake_engine import FakeEngine
from tests.waiting import until

MAX_BODY = 20_000


@dataclass
class Served:
    """A world behind a real server, and the connections to it."""

    world: World
    server: Server
    ada: Account
    opened: ExitStack = field(default_factory=ExitStack)

    def connect(self, timeout: float = 10.0) -> socket.socket:
        host, port = self.server.address.rsplit(":", 1)
        return self.opened.enter_context(socket.create_connection((host, int(port)), timeout))

    def send(self, data: bytes) -> http.client.HTTPResponse:
        """Send bytes on a new connection; return the answer with its body unread."""
        return answer(self.connect(), data)

    def get(self, path: str, *headers: str, token: bool = True) -> http.client.HTTPResponse:
        return self.send(self.request("GET", path, *headers, token=token))

    def request(self, method: str, path: str, *headers: str, body: bytes = b"", token: bool = True) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", "Host: ci", *headers]
        if token:
            lines.append(f"Authorization: Bearer {self.ada.token}")
        return "\r\n".join([*lines, "", ""]).encode() + body


def answer(connection: socket.socket, data: bytes = b"") -> http.client.HTTPResponse:
    connection.sendall(data)
    response = http.client.HTTPResponse(connection)
    response.begin()
    return response


def refusal(response: http.client.HTTPResponse) -> tuple[int, str]:
    """Return the status and code of a refusal, after checking that it is a complete envelope."""
    error = json.loads(response.read())["error"]
    assert response.headers["Content-Type"] == "application/json"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["X-Request-Id"] == error["request_id"]
    assert error["doc_url"].endswith(f"/docs/errors/{error['code']}")
    return response.status, error["code"]


@contextmanager
def serving(directory: Path, **settings: Any) -> Iterator[Served]:
    clock = SystemClock()
    storage = Storage.create(directory, clock)
    engine = FakeEngine(storage, None)
    wanted = {"threads": 6, "max_streams": 3, "max_body_bytes": MAX_BODY, "max_header_bytes": 8000, **settings}
    server = Server(HttpSettings(listen="127.0.0.1:0", **wanted))
    app = create_app(storage, engine, server.settings, slots=server.slots, clock=clock)
    world = World(storage, engine, clock, app)  # type: ignore[arg-type]
    server.start(app)
    served = Served(world, server, world.sign_up("ada@example.org"))
    try:
        with served.opened:
            yield served
    finally:
        server.close()
        storage.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("http")]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path / "state") as served:
        yield served


@pytest.fixture
def job(served: Served) -> JobPath:
    return served.ada.pipeline().build().job()


def stream(served: Served, job: JobPath) -> http.client.HTTPResponse:
    return served.get(f"/v0/jobs/{job.uuid}/logs?token={job.build.token()}", token=False)


def organization(name: str) -> bytes:
    return json.dumps({"name": name}).encode()


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


def test_error_pages_are_where_the_server_is(served: Served):
    error = json.loads(served.get("/nothing").read())["error"]

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


def test_headers_have_a_limit(served: Served):
    assert refusal(served.get("/api/v0/user", f"X-Long: {'x' * 9000}")) == (431, "headers_too_large")
    assert refusal(served.send(b"GET /" + b"x" * 9000)) == (431, "headers_too_large")
    assert refusal(served.get("/api/v0/user", *["a:"] * 501)) == (431, "headers_too_large")
    assert served.get("/api/v0/user", f"X-Long: {'x' * 6000}").status == 200


def test_too_large_headers_are_refused_with_the_request_id(served: Served):
    """Even if the id is among the headers that were not read to the end."""

    given = "an-id-of-twenty-chars"

    assert served.get("/", f"X-Request-Id: {given}", f"X-Long: {'x' * 9000}").headers["X-Request-Id"] == given


def test_a_body_at_the_limit_is_taken_and_one_byte_more_is_not(served: Served):
    body = organization("x").ljust(MAX_BODY)
    headers = ("Content-Type: application/json", f"Content-Length: {MAX_BODY}")
    assert served.send(served.request("POST", "/api/v0/organizations", *headers, body=body)).status == 201

    too_long = served.request("POST", "/api/v0/organizations", f"Content-Length: {MAX_BODY + 1}")
    assert refusal(served.send(too_long)) == (413, "body_too_large")


def test_only_the_creation_of_builds_takes_large_bodies(tmp_path: Path):
    small, large = 64 * 2**10, 2**20
    json_of = "Content-Type: application/json"
    with serving(tmp_path / "state", max_body_bytes=large) as served:
        builds = served.ada.pipeline().path + "/builds"
        for path in (
            "/api/v0/organizations",
            "/api/v0/auth/cli/claim",
            "/nowhere",
            f"{builds}/1",
        ):
            request = served.request("POST", path, json_of, f"Content-Length: {small + 1}", token=False)
            assert refusal(served.send(request)) == (413, "body_too_large")
            chunk = b"%x\r\n" % (small + 1) + b"x" * (small + 1) + b"\r\n0\r\n\r\n"
            request = served.request("POST", path, json_of, "Transfer-Encoding: chunked", body=chunk, token=False)
            assert refusal(served.send(request)) == (413, "body_too_large")

        for path in (builds, f"{builds.partition('/pipelines')[0]}/builds"):
            request = served.request("POST", path, json_of, f"Content-Length: {large}", body=b" " * large)
            assert refusal(served.send(request)) == (400, "malformed_json")


@pytest.mark.parametrize("of", ["", "/pipelines/web"])
def test_the_largest_secret_fits_however_it_is_escaped(tmp_path: Path, of: str):
    with serving(tmp_path / "state", max_body_bytes=HttpSettings().max_body_bytes) as served:
        served.ada.pipeline("Web")
        path, json_of = f"{served.ada.path}{of}/secrets/TOKEN", "Content-Type: application/json"
        for size, status in ((2**16, 200), (2**16 + 1, 422)):
            body = b'{"value": "%s"}' % (rb"\u0001" * size)
            request = served.request("PUT", path, json_of, f"Content-Length: {len(body)}", body=body)
            assert served.send(request).status == status

        request = served.request("PUT", path, json_of, f"Content-Length: {400 * 2**10 + 1}")
        assert refusal(served.send(request)) == (413, "body_too_large")


def test_a_body_that_is_too_large_is_not_invited(served: Served):
    request = served.request("POST", "/x", f"Content-Length: {MAX_BODY + 1}", "Expect: 100-continue")
    connection = served.connect()
    connection.sendall(request)

    assert connection.recv(12) == b"HTTP/1.1 413"


def test_a_body_that_fits_is_invited(served: Served):
    body = organization("invited")
    headers = ("Content-Type: application/json", f"Content-Length: {len(body)}", "Expect: 100-continue")
    connection = served.connect()
    connection.sendall(served.request("POST", "/api/v0/organizations", *headers))
    assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"

    assert answer(connection, body).status == 201


def test_a_client_that_sends_too_large_a_body_reads_the_response(served: Served):
    """It is still sending when the body is refused."""

    size = 30 * 2**20
    connection = served.connect()
    connection.sendall(served.request("POST", "/x", f"Content-Length: {size}"))
    try:
        for _ in range(size // 2**16):
            connection.sendall(b"x" * 2**16)
    except ConnectionError:
        pytest.fail("the server reset the connection while the client was sending")

    assert refusal(answer(connection)) == (413, "body_too_large")


def test_chunked_bodies_are_taken_within_the_limit(served: Served):
    headers = ("Content-Type: application/json", "Transfer-Encoding: chunked")
    body = organization("in pieces")
    pieces = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    assert served.send(served.request("POST", "/api/v0/organizations", *headers, body=pieces)).status == 201

    block = b"1000\r\n" + b"x" * 4096 + b"\r\n"
    request = served.request("POST", "/api/v0/organizations", *headers, body=block * 6 + b"0\r\n\r\n")
    assert refusal(served.send(request)) == (413, "body_too_large")


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


def test_events_arrive_as_they_happen(served: Served, job: JobPath):
    job.write(b"one\n")
    response = stream(served, job)
    lines = iter(response.readline, b"")

    assert next(line for line in lines if line.startswith(b"data: ")).startswith(b'data: {"chunks": [{"seq": 4')
    for number in range(3):
        job.write(b"line %d\n" % number)
        for line in lines:
            assert line != b": still here\n", "a heartbeat came first"
            if line.startswith(b"data: "):
                break
        assert f"line {number}" in json.loads(line.removeprefix(b"data: "))["content"]
    job.end()
    assert [line for line in lines if line.strip()] == [b"event: done\n", b"data: {}\n"]


def test_a_waiting_request_is_answered_when_bytes_come(served: Served, job: JobPath):
    connection = served.connect()
    connection.sendall(served.request("GET", f"{job.path}/log?wait=20"))
    until(lambda: len(served.world.engine.reading) == 1, "a reader")
    job.write(b"here\n")

    assert answer(connection).read() == b"here\n"


def test_streams_never_starve_the_api(served: Served, job: JobPath):
    slots = [stream(served, job) for _ in range(3)]
    assert [each.status for each in slots] == [200, 200, 200]
    assert refusal(stream(served, job)) == (503, "too_many_streams")
    added = served.world.engine.readers_added
    assert all(added.acquire(timeout=60) for _ in slots)

    waiting = served.get(f"{job.path}/log?wait=30")
    assert (waiting.status, waiting.read()) == (200, b"")
    assert not added.acquire(blocking=False)
    for _ in range(50):
        assert served.get("/api/v0/user").status == 200


def test_a_client_that_hangs_up_frees_its_place(served: Served, job: JobPath):
    for _ in range(3):
        assert stream(served, job).status == 200
    assert stream(served, job).status == 503
    served.opened.close()

    until(lambda: stream(served, job).status == 200, "a free slot")


def test_a_waiting_client_that_hangs_up_frees_its_place(served: Served, job: JobPath):
    for _ in range(3):
        served.connect().sendall(served.request("GET", f"{job.path}/log?wait=30"))
    until(lambda: len(served.world.engine.reading) == 3, "three readers")
    served.opened.close()

    until(lambda: not served.world.engine.reading, "the end of all readers")


def test_slow_readers_of_large_logs_hold_no_thread(served: Served, job: JobPath):
    whole = b"".join(b"%063d\n" % number for number in range(2**20 // 4))
    job.write(*[whole[start : start + 2**20] for start in range(0, len(whole), 2**20)])
    readers = [served.get(f"{job.path}/log") for _ in range(12)]

    for _ in range(20):
        assert served.get("/api/v0/user").status == 200
    for reader in readers:
        assert reader.headers["Content-Length"] == str(len(whole))
        assert reader.read() == whole


def test_a_log_deleted_while_it_is_sent_cuts_the_response_short(served: Served, job: JobPath):
    job.write(*[b"x" * 2**20] * 30)
    reader = served.get(f"{job.path}/log")
    state = served.world.storage.directory
    (state / "logs" / job.build.stored.uuid / job.uuid / "1.log").unlink()

    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        reader.read()
    assert served.get("/api/v0/user").status == 200


def test_closing_ends_streams_with_a_hint_and_refuses_newcomers(served: Served, job: JobPath):
    response = stream(served, job)
    idle = served.connect()
    assert served.get("/api/v0/ping").status == 200  # by then the server has also accepted `idle`
    served.server.close()

    text = response.read().decode()
    assert text.endswith("\nretry: 1000\n\n")
    assert [event.name for event in events(text)] == ["history"]
    assert idle.recv(1) == b""
    with pytest.raises(ConnectionError):
        served.connect()


def test_closing_lets_a_download_end(tmp_path: Path):
    with serving(tmp_path / "state", stop_timeout=120) as served:
        job = served.ada.pipeline().build().job()
        job.write(*[b"x" * 2**20] * 30)
        reader = served.get(f"{job.path}/log")
        closing = threading.Thread(target=served.server.close)
        closing.start()

        assert len(reader.read()) == 30 * 2**20
        closing.join(30)
        assert not closing.is_alive()


def test_closing_does_not_wait_for_a_client_that_does_not_read(tmp_path: Path):
    with serving(tmp_path / "state", stop_timeout=0.5) as served:
        job = served.ada.pipeline().build().job()
        job.write(*[b"x" * 2**20] * 30)
        reader = served.get(f"{job.path}/log")
        served.server.close()
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            reader.read()


def test_closing_does_not_wait_for_an_unread_stream(tmp_path: Path):
    with serving(tmp_path / "state", stop_timeout=0.5) as served:
        job = served.ada.pipeline().build().job()
        job.write(*[b"x" * 2**20] * 30)
        response = stream(served, job)
        assert response.readline() == b"event: history\n"
        listener = served.server._listener
        assert listener is not None
        (channel,) = [each for each in listener.channels() if each.requests]
        until(
            lambda: channel.total_outbufs_len > 512 * 2**10 and not select([], [channel.socket], [], 0)[1],
            "a full pipe",
        )
        served.server.close()


def test_an_address_in_use_is_reported(served: Served):
    with pytest.raises(CannotListen, match=f"cannot listen on {served.server.address}: Address already in use"):
        Server(HttpSettings(listen=served.server.address))


def test_a_missing_address_is_reported():
    with pytest.raises(CannotListen, match=r"cannot listen on 203\.0\.113\.1:80"):
        Server(HttpSettings(listen="203.0.113.1:80"))


def test_a_server_that_was_never_started_can_be_closed():
    server = Server(HttpSettings(listen="[::1]:0"))
    assert server.settings.url.startswith("http://[::1]:")
    server.close()
