from __future__ import annotations

import pytest
from falcon import testing
from hypothesis import given
from hypothesis import strategies as st

from api import HttpSettings, Parts, create_app
from api.http.files import ByteRange, SourceSlice, parse_range
from api.http.slots import StreamSlots
from storage import BuildState, JobState, Outcome
from tests.api.world import Account, JobPath, PipelinePath, World

TEXT = b"".join(b"line %d\n" % number for number in range(100))


@pytest.fixture
def job(pipeline: PipelinePath) -> JobPath:
    job = pipeline.build().job()
    job.write(TEXT)
    return job


def test_the_log_is_answered_as_it_is(ada: Account, job: JobPath):
    answered = ada.client.simulate_get(f"{job.path}/log")

    assert answered.status_code == 200
    assert answered.content == TEXT
    assert answered.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answered.headers["Accept-Ranges"] == "bytes"
    assert answered.headers["X-Log-Complete"] == "false"
    assert answered.headers["Cache-Control"] == "no-store"


def test_a_job_that_never_ran_has_an_empty_log(ada: Account, pipeline: PipelinePath):
    job = pipeline.build().job()
    answered = ada.client.simulate_get(f"{job.path}/log")

    assert (answered.status_code, answered.content) == (200, b"")


@pytest.mark.parametrize(
    ("header", "start", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=5-9", 5, 10),
        ("bytes=100-", 100, len(TEXT)),
        ("bytes=-7", len(TEXT) - 7, len(TEXT)),
        ("bytes=0-99999", 0, len(TEXT)),
        ("bytes=-99999", 0, len(TEXT)),
        (f"bytes=0-{2**64}", 0, len(TEXT)),
        (f"bytes=-{2**64}", 0, len(TEXT)),
        ("Bytes= 3-4 ", 3, 5),
    ],
)
def test_a_range_is_answered_with_its_bytes(ada: Account, job: JobPath, header: str, start: int, end: int):
    answered = ada.client.simulate_get(f"{job.path}/log", headers={"Range": header})

    assert answered.status_code == 206
    assert answered.content == TEXT[start:end]
    assert answered.headers["Content-Range"] == f"bytes {start}-{end - 1}/{len(TEXT)}"


@pytest.mark.parametrize("header", ["bytes=9999-", "bytes=9999-10000", f"bytes={2**64}-", "bytes=-0"])
def test_a_range_past_the_end_is_not_satisfiable(ada: Account, job: JobPath, header: str):
    answered = ada.client.simulate_get(f"{job.path}/log", headers={"Range": header})

    assert answered.status_code == 416
    assert answered.json["error"]["code"] == "range_not_satisfiable"
    assert answered.headers["Content-Range"] == f"bytes */{len(TEXT)}"
    assert answered.headers["X-Log-Complete"] == "false"


@pytest.mark.parametrize("header", ["bytes=9-5", "bytes=a-b", "lines=1-2", "bytes=0-1,5-6", "bytes", "bytes=-", ""])
def test_a_range_that_is_not_understood_is_ignored(ada: Account, job: JobPath, header: str):
    answered = ada.client.simulate_get(f"{job.path}/log", headers={"Range": header})

    assert (answered.status_code, answered.content) == (200, TEXT)


def test_a_log_is_complete_when_its_job_has_ended(ada: Account, job: JobPath):
    """The flag does not depend on the requested range."""

    job.end()

    def complete(header: str) -> str:
        return ada.client.simulate_get(f"{job.path}/log", headers={"Range": header}).headers["X-Log-Complete"]

    assert ada.client.simulate_get(f"{job.path}/log").headers["X-Log-Complete"] == "true"
    assert complete("bytes=5-") == "true"
    assert complete("bytes=0-5") == "true"
    assert complete(f"bytes={len(TEXT)}-") == "true"


def test_attempts_are_one_log(ada: Account, job: JobPath):
    job.write(b"again\n", attempt=2)

    assert ada.client.simulate_get(f"{job.path}/log").content == TEXT + b"again\n"
    straddling = {"Range": f"bytes={len(TEXT) - 3}-{len(TEXT) + 2}"}
    assert ada.client.simulate_get(f"{job.path}/log", headers=straddling).content == (TEXT + b"again\n")[-9:-3]


def test_a_large_range_is_streamed(ada: Account, pipeline: PipelinePath):
    job = pipeline.build().job()
    block = bytes(range(256)) * 256
    for attempt in (1, 2):
        job.write(*[block] * 20, attempt=attempt)
    whole = block * 40
    answered = ada.client.simulate_get(f"{job.path}/log", headers={"Range": "bytes=10-"})

    assert answered.status_code == 206
    assert answered.content == whole[10:]
    assert answered.headers["Content-Length"] == str(len(whole) - 10)


def test_head_says_how_long_the_log_is(ada: Account, pipeline: PipelinePath):
    job = pipeline.build().job()
    job.write(b"x" * 100_000)
    answered = ada.client.simulate_head(f"{job.path}/log")

    assert answered.status_code == 200
    assert answered.headers["Content-Length"] == "100000"
    assert answered.content == b""


def test_waiting_ends_when_bytes_come(world: World, ada: Account, job: JobPath):
    world.engine.during_waits = [lambda: job.write(b"more\n")]
    answered = ada.client.simulate_get(
        f"{job.path}/log", headers={"Range": f"bytes={len(TEXT)}-"}, params={"wait": "30"}
    )

    assert (answered.status_code, answered.content) == (206, b"more\n")
    assert world.clock.monotonic() == 1000.0


def test_waiting_ends_when_the_job_does(world: World, ada: Account, job: JobPath):
    world.engine.during_waits = [job.end]
    answered = ada.client.simulate_get(
        f"{job.path}/log", headers={"Range": f"bytes={len(TEXT)}-"}, params={"wait": "30"}
    )

    assert answered.status_code == 416
    assert answered.headers["X-Log-Complete"] == "true"


def test_waiting_ends_in_time(world: World, ada: Account, pipeline: PipelinePath):
    job = pipeline.build().job()
    answered = ada.client.simulate_get(f"{job.path}/log", params={"wait": "20"})

    assert (answered.status_code, answered.content) == (200, b"")
    assert world.clock.monotonic() == pytest.approx(1020)


def test_no_wait_if_there_are_bytes_or_the_log_has_ended(world: World, ada: Account, job: JobPath):
    assert ada.client.simulate_get(f"{job.path}/log", params={"wait": "30"}).content == TEXT
    job.end(JobState.CANCELED)
    past = {"Range": f"bytes={len(TEXT)}-"}
    assert ada.client.simulate_get(f"{job.path}/log", params={"wait": "30"}, headers=past).status_code == 416
    assert world.clock.monotonic() == 1000.0


def test_a_head_request_does_not_wait(world: World, ada: Account, pipeline: PipelinePath):
    job = pipeline.build().job()
    ada.client.simulate_head(f"{job.path}/log", params={"wait": "30"})

    assert world.clock.monotonic() == 1000.0


@pytest.mark.parametrize("wait", ["0", "30", "6.818668882982618", "1e1", "1.5E-05"])
def test_a_wait_is_any_number_in_its_range(ada: Account, job: JobPath, wait: str):
    assert ada.client.simulate_get(f"{job.path}/log", params={"wait": wait}).status_code == 200


@pytest.mark.parametrize("wait", ["-1", "31", "30.5", "soon", "", "1e2", "1e999", "1_0", "nan"])
def test_a_wait_outside_its_range_is_refused(ada: Account, job: JobPath, wait: str):
    answered = ada.client.simulate_get(f"{job.path}/log", params={"wait": wait})

    assert answered.status_code == 422
    assert answered.json["error"]["code"] == "invalid_wait"


def test_without_a_free_slot_it_answers_without_waiting(world: World, pipeline: PipelinePath):
    slots = StreamSlots(1)
    app = create_app(world.storage, world.engine, HttpSettings(), Parts(clock=world.clock, slots=slots))
    job = pipeline.build().job()
    params = {"wait": "30", "token": job.build.token()}
    slot = slots.acquire(1)

    assert slot is not None
    assert testing.TestClient(app).simulate_get(f"{job.path}/log", params=params).status_code == 200
    assert world.clock.monotonic() == 1000.0
    slot.release()
    assert testing.TestClient(app).simulate_get(f"{job.path}/log", params=params).status_code == 200
    assert world.clock.monotonic() == pytest.approx(1030)
    assert slots.acquire(1) is not None


def test_a_closing_server_answers_waiting_requests(world: World, pipeline: PipelinePath):
    slots = StreamSlots(1)
    app = create_app(world.storage, world.engine, HttpSettings(), Parts(clock=world.clock, slots=slots))
    job = pipeline.build().job()
    params = {"wait": "30", "token": job.build.token()}
    world.engine.during_waits = [slots.close]

    assert testing.TestClient(app).simulate_get(f"{job.path}/log", params=params).status_code == 200
    assert world.clock.monotonic() < 1001


def test_a_part_of_a_log_is_a_file(world: World, job: JobPath):
    span = SourceSlice(world.storage.logs.reader(job.build.stored.uuid, job.uuid), 10, 110)

    assert span.seekable()
    assert span.seek(0, 2) == 100
    assert span.seek(-5, 1) == 95
    assert span.read() == TEXT[105:110]
    assert span.read(7) == b""
    assert span.seek(20) == span.tell() == 20
    assert span.read(5) == TEXT[30:35]


def test_a_log_that_got_shorter_is_an_error_and_no_endless_wait(world: World, job: JobPath):
    file = world.storage.directory / "logs" / job.build.stored.uuid / job.uuid / "1.log"
    span = SourceSlice(world.storage.logs.reader(job.build.stored.uuid, job.uuid), 10, len(TEXT))
    with file.open("r+b") as log:
        log.truncate(30)

    with pytest.raises(OSError, match="shorter"):
        span.read()


def test_a_public_log_is_read_without_a_token(world: World, ada: Account, bob: Account):
    job = ada.pipeline("open", visibility="public").build().job()
    job.write(b"hello\n")

    assert world.anonymous.simulate_get(f"{job.path}/log").text == "hello\n"
    assert bob.client.simulate_get(f"{job.path}/log").text == "hello\n"


def test_a_private_log_is_for_members_and_token_holders(world: World, bob: Account, job: JobPath):
    assert bob.client.simulate_get(f"{job.path}/log").json["error"]["code"] == "organization_not_found"
    assert world.anonymous.simulate_get(f"{job.path}/log").json["error"]["code"] == "unauthorized"
    answered = world.anonymous.simulate_get(f"{job.path}/log", params={"token": job.build.token()})
    assert answered.content == TEXT


def test_an_unknown_jobs_log_is_not_found(ada: Account, job: JobPath):
    answered = ada.client.simulate_get(f"{job.build.path}/jobs/nothing/log")
    assert answered.json["error"]["code"] == "job_not_found"
    answered = ada.client.simulate_get(f"{job.build.path}/jobs/nothing/log", params={"token": job.build.token()})
    assert answered.json["error"]["code"] == "job_not_found"


@given(st.text(max_size=30))
def test_any_range_header_is_a_range_or_none(header: str):
    for text in (header, f"bytes={header}"):
        wanted = parse_range(text)
        assert wanted is None or isinstance(wanted, ByteRange)


@given(
    st.integers(0, 40),
    st.one_of(
        st.builds(ByteRange, first=st.integers(0, 50), last=st.one_of(st.none(), st.integers(0, 50))),
        st.builds(ByteRange, suffix=st.integers(0, 50)),
    ),
)
def test_a_range_lies_within_the_size(size: int, wanted: ByteRange):
    if wanted.last is not None and wanted.last < wanted.first:
        return
    span = wanted.within(size)
    if span is not None:
        start, end = span
        assert 0 <= start < end <= size


def expire(world: World) -> None:
    """Expire the logs of every finished build."""
    world.storage.log_retention.measure()
    world.storage.log_retention.expire(world.storage.log_retention.oldest_first())


def finish(world: World, job: JobPath) -> None:
    """Pass a job and its build, with exit code 0."""
    stored = job.stored
    outcome = Outcome(exit_code=0)
    assert world.storage.jobs.finish(stored.id, stored.state, JobState.PASSED, outcome, lease_id=None, billable=False)
    assert world.storage.builds.move(stored.build_id, BuildState.SCHEDULED, BuildState.PASSED)


@pytest.mark.parametrize("path", ["{}/log", "/v0/jobs/{}/logs"])
def test_an_expired_log_is_gone_and_not_merely_empty(world: World, job: JobPath, path: str):
    token = job.build.token()
    finish(world, job)
    expire(world)
    where = path.format(job.uuid if path.startswith("/v0") else job.path)
    answered = world.anonymous.simulate_get(where, params={"token": token}, headers={"Range": "bytes=3-"})

    assert answered.status_code == 410
    assert answered.json["error"]["code"] == "log_expired"
    assert answered.json["error"]["type"] == "conflict"
    assert "2026-01-02" in answered.json["error"]["message"]


def test_only_readers_of_a_log_learn_that_it_expired(world: World, bob: Account, job: JobPath):
    finish(world, job)
    expire(world)

    assert world.anonymous.simulate_get(f"{job.path}/log").status_code == 401
    assert bob.client.simulate_get(f"{job.path}/log").status_code == 404
    assert world.anonymous.simulate_get(f"/v0/jobs/{job.uuid}/logs").status_code == 401


def test_a_log_with_lost_files_is_410_and_an_empty_log_is_not(world: World, ada: Account, pipeline: PipelinePath):
    lost, empty = pipeline.build().job(), pipeline.build().job()
    lost.write(TEXT)
    empty.write()
    for job in (lost, empty):
        finish(world, job)
    world.storage.logs.remove(lost.build.stored.uuid)

    answered = ada.client.simulate_get(f"{lost.path}/log")
    assert (answered.status_code, answered.json["error"]["code"]) == (410, "log_expired")
    assert ada.client.simulate_get(f"/v0/jobs/{lost.uuid}/logs").status_code == 410
    assert ada.client.simulate_get(f"{empty.path}/log").status_code == 200


def test_a_log_that_goes_while_it_is_looked_at_is_gone(world: World, ada: Account, job: JobPath):
    finish(world, job)
    (world.storage.directory / "logs" / job.build.stored.uuid / job.uuid / "1.log").unlink()

    assert ada.client.simulate_get(f"{job.path}/log").json["error"]["code"] == "log_expired"
