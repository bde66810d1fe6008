from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from falcon import testing

from api import HttpSettings, Parts, create_app
from api.http.slots import LogReader, StreamSlots
from storage import JobState, Role
from tests.api.world import Account, JobPath, PipelinePath, World, steps


@dataclass
class Event:
    name: str
    id: str | None
    data: Any


def events(text: str) -> list[Event]:
    """Parse an event stream as a browser does, without comments."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and not line.startswith(":"))
        if "data" in fields:
            found.append(Event(fields["event"], fields.get("id"), json.loads(fields["data"])))
    return found


def stream(job: JobPath, **options: Any) -> testing.Result:
    params = {"token": job.build.token(), **options.pop("params", {})}
    return job.build.account.world.anonymous.simulate_get(f"/v0/jobs/{job.uuid}/logs", params=params, **options)


@pytest.fixture
def job(pipeline: PipelinePath) -> JobPath:
    return pipeline.build().job()


def test_an_ended_jobs_log_is_history_and_done(job: JobPath):
    job.write(b"one\n", b"two\n", notice="the VM is gone")
    job.end()
    answered = stream(job)

    assert answered.status_code == 200
    assert answered.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert answered.headers["Cache-Control"] == "no-store"
    history, done = events(answered.text)
    ts = 1767323045 * 10**9
    assert history == Event(
        "history",
        "23",
        {
            "chunks": [
                {"seq": 4, "stream_kind": 0, "content": "one\n", "ts": ts},
                {"seq": 8, "stream_kind": 0, "content": "two\n", "ts": ts},
                {"seq": 23, "stream_kind": 2, "content": "the VM is gone\n", "ts": ts},
            ]
        },
    )
    assert done == Event("done", None, {})
    assert answered.text.endswith("event: done\ndata: {}\n\n")


def test_a_log_without_bytes_has_an_empty_history(job: JobPath):
    job.end(JobState.CANCELED)

    assert events(stream(job).text) == [Event("history", None, {"chunks": []}), Event("done", None, {})]


def test_what_comes_later_comes_as_chunks(world: World, job: JobPath):
    job.write(b"one\n")
    world.engine.during_waits = [lambda: job.write(b"two\n", b"three\n"), job.end]
    names_and_ids = [(event.name, event.id) for event in events(stream(job).text)]

    assert names_and_ids == [("history", "4"), ("chunk", "8"), ("chunk", "14"), ("done", None)]


def test_the_end_of_a_log_comes_before_done(world: World, job: JobPath):
    def finish_job() -> None:
        job.write(b"bye\n")
        job.end()

    world.engine.during_waits = [finish_job]

    assert [event.name for event in events(stream(job).text)] == ["history", "chunk", "done"]


@pytest.mark.parametrize("by", ["header", "query"])
def test_a_stream_resumes_after_the_last_event(job: JobPath, by: str):
    job.write(b"one\n", b"two\n", b"three\n")
    job.end()
    where = {"headers": {"Last-Event-ID": "4"}} if by == "header" else {"params": {"last_event_id": "4"}}
    history = events(stream(job, **where).text)[0]

    assert [chunk["content"] for chunk in history.data["chunks"]] == ["two\n", "three\n"]


def test_a_stream_resumes_in_the_middle_of_a_chunk(job: JobPath):
    job.write(b"one\n", b"two\n")
    job.end()
    history = events(stream(job, headers={"Last-Event-ID": "6"}).text)[0]

    assert history.data["chunks"][0] == {"seq": 8, "stream_kind": 0, "content": "o\n", "ts": 1767323045 * 10**9}


def test_resuming_at_the_end_gives_done(job: JobPath):
    job.write(b"one\n")
    job.end()
    for offset in ("4", "99999"):
        assert events(stream(job, headers={"Last-Event-ID": offset}).text)[0].data == {"chunks": []}


@pytest.mark.parametrize("last", ["", "soon", "-1", "4.0", "9" * 40])
def test_an_invalid_offset_means_the_beginning(job: JobPath, last: str):
    job.write(b"one\n")
    job.end()

    assert events(stream(job, headers={"Last-Event-ID": last}).text)[0].data["chunks"][0]["content"] == "one\n"


def test_bytes_that_are_no_utf8_are_replaced(job: JobPath):
    job.write(b"\xff\xfe caf\xc3\xa9 \r\n\x00\x1b[1m", "\u2028\u2029".encode())
    job.end()
    contents = [chunk["content"] for chunk in events(stream(job).text)[0].data["chunks"]]

    assert "".join(contents) == "\ufffd\ufffd café \r\n\0\x1b[1m\u2028\u2029"


def test_history_is_bounded_and_the_rest_follows(job: JobPath):
    job.write(*[b"x" * 65_536] * 40)
    job.end()
    answered = stream(job)
    history, *chunks, done = events(answered.text)

    assert len(history.data["chunks"]) == 16
    assert [event.name for event in chunks] == ["chunk"] * 24
    assert [int(event.id or 0) for event in chunks] == [65_536 * number for number in range(17, 41)]
    assert done.name == "done"


def test_a_quiet_stream_has_a_comment_every_15_seconds(world: World, job: JobPath):
    def nothing() -> None:
        pass

    world.engine.during_waits = [nothing] * 90 + [job.end]
    text = stream(job).text

    assert text.count(": still here\n\n") == 3
    assert [event.name for event in events(text)] == ["history", "done"]


def test_a_closing_server_says_when_to_come_back(world: World, pipeline: PipelinePath):
    slots = StreamSlots(1)
    app = create_app(world.storage, world.engine, HttpSettings(), Parts(clock=world.clock, slots=slots))
    job = pipeline.build().job()
    job.write(b"one\n")
    world.engine.during_waits = [slots.close]
    token = job.build.token()
    text = testing.TestClient(app).simulate_get(f"/v0/jobs/{job.uuid}/logs", params={"token": token}).text

    assert [event.name for event in events(text)] == ["history"]
    assert text.endswith("\nretry: 1000\n\n")


def test_a_client_that_hung_up_ends_the_stream(world: World, job: JobPath):
    gone: list[bool] = []
    world.engine.during_waits = [lambda: gone.append(True)]
    text = stream(job, extras={"waitress.client_disconnected": lambda: bool(gone)}).text

    assert [event.name for event in events(text)] == ["history"]


def test_a_client_that_hung_up_gets_no_more_of_a_long_log(job: JobPath):
    job.write(*[b"x" * 65_536] * 40)
    text = stream(job, extras={"waitress.client_disconnected": lambda: True}).text

    assert [event.name for event in events(text)] == ["history", "chunk"]


def test_streams_are_limited_and_give_their_place_back(world: World, pipeline: PipelinePath):
    slots = StreamSlots(1)
    app = create_app(world.storage, world.engine, HttpSettings(), Parts(clock=world.clock, slots=slots))
    client = testing.TestClient(app)
    job = pipeline.build().job()
    job.end()
    url, params = f"/v0/jobs/{job.uuid}/logs", {"token": job.build.token()}

    assert client.simulate_get(url, params=params).status_code == 200
    assert client.simulate_head(url, params=params).status_code == 200
    slot = slots.acquire(1)
    refused = client.simulate_get(url, params=params)
    assert refused.status_code == 503
    assert refused.json["error"]["code"] == "too_many_streams"
    assert refused.headers["Retry-After"] == "5"
    assert slot is not None
    slot.release()
    slot.release()
    assert client.simulate_get(url, params=params).status_code == 200


def test_who_may_read_a_stream(world: World, ada: Account, bob: Account, job: JobPath):
    public = ada.pipeline("open", visibility="public").build().job()
    for each in (job, public):
        each.end()

    def status(client: testing.TestClient, uuid: str, **params: str) -> tuple[int, str]:
        answered = client.simulate_get(f"/v0/jobs/{uuid}/logs", params=params)
        return answered.status_code, "" if answered.status_code == 200 else answered.json["error"]["code"]

    unknown = "00000000-0000-4000-8000-000000000000"
    token = job.build.token()
    assert status(world.anonymous, job.uuid, token=token) == (200, "")
    assert status(world.anonymous, public.uuid) == (200, "")
    assert status(bob.client, public.uuid) == (200, "")
    assert status(ada.client, job.uuid) == (200, "")
    assert status(world.anonymous, job.uuid) == (401, "log_stream_unauthorized")
    assert status(world.anonymous, unknown) == (401, "log_stream_unauthorized")
    assert status(world.anonymous, "x", token=token) == (403, "log_stream_forbidden")
    assert status(world.anonymous, unknown, token=token) == (403, "log_stream_forbidden")
    assert status(world.anonymous, public.uuid, token=token) == (403, "log_stream_forbidden")
    assert status(bob.client, job.uuid) == (404, "job_not_found")
    assert status(bob.client, unknown) == (404, "job_not_found")


def test_an_ended_job_among_others_ends_its_own_stream(pipeline: PipelinePath):
    first = pipeline.build(pipeline_ir=steps("first", "second")).job()
    first.write(b"one\n")
    first.end()

    assert events(stream(first).text)[-1].name == "done"


def test_one_account_leaves_places_to_others(world: World, ada: Account, job: JobPath):
    slots = StreamSlots(8, per_reader=2)
    app = create_app(world.storage, world.engine, HttpSettings(), Parts(clock=world.clock, slots=slots))
    client = testing.TestClient(app)
    url = f"/v0/jobs/{job.uuid}/logs"
    colleague = world.sign_up("colleague@example.org")
    colleague.join(ada, Role.MEMBER)
    held = [slots.acquire_for_reader(LogReader(ada.user.uuid, public=False)) for _ in range(2)]
    assert None not in held

    # The limit is one account's, whether it uses a log token or the API key.
    for params, headers in (({"token": job.build.token()}, {}), ({}, {"Authorization": f"Bearer {ada.token}"})):
        refused = client.simulate_get(url, params=params, headers=headers)
        assert refused.json["error"]["code"] == "too_many_streams"
    job.end()
    answered = client.simulate_get(url, headers={"Authorization": f"Bearer {colleague.token}"})
    assert answered.status_code == 200
