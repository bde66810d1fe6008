"""Responses that last: events, waiting requests and large logs, and their end when the server closes."""

from __future__ import annotations

import http.client
import json
import threading
from collections import Counter
from pathlib import Path
from select import select

import pytest

from api.http.channel import Channel
from storage import JobLog
from tests.api.http.served import Served, answer, refusal, serving
from tests.api.logs.test_events import events
from tests.api.world import JobPath
from tests.waiting import until


@pytest.fixture
def job(served: Served) -> JobPath:
    return served.ada.pipeline().build().job()


def stream(served: Served, job: JobPath) -> http.client.HTTPResponse:
    return served.get(f"/v0/jobs/{job.uuid}/logs?token={job.build.token()}", token=False)


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


def test_the_loop_rests_while_a_request_sends(served: Served, job: JobPath, monkeypatch: pytest.MonkeyPatch):
    """Else it would look all the time whether something is left to send, and slow the sending down."""
    reading, go_on, looks = threading.Event(), threading.Event(), Counter[int]()
    read, look = JobLog.read, Channel.handle_write

    def read_slowly(log: JobLog, start: int, length: int) -> bytes:
        reading.set()
        assert go_on.wait(60)
        return read(log, start, length)

    def counted(channel: Channel) -> None:
        looks[id(channel)] += 1
        look(channel)

    job.write(b"x" * 2**17)
    monkeypatch.setattr(JobLog, "read", read_slowly)
    monkeypatch.setattr(Channel, "handle_write", counted)
    connection = served.connect()
    connection.sendall(served.request("GET", f"{job.path}/log"))
    assert reading.wait(60)
    for _ in range(20):
        assert served.get("/api/v0/user").status == 200

    assert max(looks.values(), default=0) <= 1
    go_on.set()
    assert len(answer(connection).read()) == 2**17


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
        listener = served.server.listener
        assert listener is not None
        (channel,) = [each for each in listener.channels() if each.requests]
        until(
            lambda: channel.total_outbufs_len > 512 * 2**10 and not select([], [channel.socket], [], 0)[1],
            "a full pipe",
        )
        served.server.close()
