"""Reading a log from a service that drops the connection, is overloaded, or has expired the log."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from ci_daemon.remote.connection import Connection
from ci_daemon.remote.errors import Backoff, RequestFailed, ServiceUnreachable, retry
from ci_daemon.submit.build_reader import ServedBuild
from ci_daemon.submit.log_reader import read_log

LOG = b"one\ntwo\nthree\n"


class Answer:
    """An answer with the log's bytes up to ``end``, although its header promises all of them."""

    def __init__(self, end: int = len(LOG), status: int = 206, code: str = "", *, complete: bool = True) -> None:
        self.end, self.status, self.code, self.complete = end, status, code, complete

    def send(self, handler: BaseHTTPRequestHandler) -> None:
        start = int(handler.headers["Range"].removeprefix("bytes=").removesuffix("-"))
        body = LOG[start:] if not self.code else json.dumps({"error": {"code": self.code, "message": "m"}}).encode()
        handler.send_response(self.status)
        handler.send_header("Content-Length", str(len(body)))
        handler.send_header("X-Log-Complete", "true" if self.complete else "false")
        handler.end_headers()
        handler.wfile.write(body[: self.end - start] if not self.code else body)


@pytest.fixture
def reading() -> Iterator[Callable[..., list[str]]]:
    """Read a log from a server with these answers, one for each request."""
    answers: list[Answer] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answers.pop(0).send(self)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        connection = Connection(f"http://127.0.0.1:{server.server_port}", "ci_x")

        def read(*given: Answer) -> list[str]:
            answers.extend(given)
            lines = list(
                read_log(partial(ServedBuild(connection, {"org": "acme", "pipeline": "web", "number": "1"}).log, "job"))
            )
            assert answers == []
            return lines

        yield read
        connection.close()
        server.shutdown()
        thread.join()


def test_an_answer_that_breaks_off_is_taken_up_at_its_last_byte(reading: Callable[..., list[str]]):
    assert reading(Answer(end=6), Answer(end=6), Answer()) == ["one", "two", "three"]


def test_a_growing_log_is_requested_until_it_is_complete(reading: Callable[..., list[str]]):
    more = Answer(status=416, code="range_not_satisfiable", complete=False)
    end = Answer(status=416, code="range_not_satisfiable")
    assert reading(Answer(complete=False), more, end) == ["one", "two", "three"]


def test_a_busy_service_is_asked_again(reading: Callable[..., list[str]]):
    busy = Answer(status=503, code="too_many_streams")
    assert reading(busy, busy, Answer()) == ["one", "two", "three"]


def test_an_expired_log_ends(reading: Callable[..., list[str]]):
    assert reading(Answer(status=410, code="log_expired")) == []


def test_a_log_that_is_refused_is_an_error(reading: Callable[..., list[str]]):
    with pytest.raises(RequestFailed, match="m"):
        reading(Answer(status=404, code="job_not_found"))


def test_retries_end():
    away = ServiceUnreachable("no answer")
    with pytest.raises(ServiceUnreachable):
        Backoff(seconds=0.0).wait_or_raise(away)
    backoff = Backoff(seconds=0.15)
    backoff.wait_or_raise(away)
    with pytest.raises(ServiceUnreachable):
        backoff.wait_or_raise(away)
    backoff.reset()
    backoff.wait_or_raise(away)


def test_a_permanent_error_is_not_retried():
    with pytest.raises(RequestFailed):
        Backoff().wait_or_raise(RequestFailed(404, "build_not_found", "no such build"))


def test_a_call_is_repeated_until_it_works():
    errors = [ServiceUnreachable("away"), RequestFailed(429, "rate_limited", "slowly")]

    def call() -> str:
        if errors:
            raise errors.pop()
        return "done"

    assert retry(call) == "done"
