from __future__ import annotations

import hashlib
import logging
from urllib.parse import unquote, urlsplit

import pytest
from falcon import testing

from storage import BuildState, NewArtifact, Storage
from tests.api.world import Account, BuildPath, JobPath, PipelinePath, World, steps

TEXT = b"".join(b"line %d\n" % number for number in range(1000))


def leave(job: JobPath, **files: bytes) -> list[NewArtifact]:
    """Store artifacts for a job."""
    stored = job.build.account.world.storage
    build = job.build.stored
    found = [stored.artifacts.files.write(build.uuid, path, [content]) for path, content in files.items()]
    stored.artifacts.store(build, job.stored, found)
    return found


@pytest.fixture
def build(pipeline: PipelinePath) -> BuildPath:
    return pipeline.build(pipeline_ir=steps("one", "two"))


@pytest.fixture
def url(ada: Account, build: BuildPath) -> str:
    """The path of an artifact's download URL."""
    leave(build.job(), **{"dist/report.html": TEXT})
    (record,) = build.get("/artifacts").json["data"]
    return urlsplit(record["download_url"]).path


def test_a_build_lists_its_jobs_artifacts_and_a_job_its_own(build: BuildPath):
    one, two = build.job(0), build.job(1)
    leave(one, **{"dist/a.tar.gz": b"a", "b.json": b"{}"})
    leave(two, **{"no suffix": b""})

    listed = build.get("/artifacts").json
    assert [(record["job_id"], record["path"]) for record in listed["data"]] == [
        (one.uuid, "dist/a.tar.gz"),
        (one.uuid, "b.json"),
        (two.uuid, "no suffix"),
    ]
    assert listed["next_cursor"] is None
    record = listed["data"][0]
    assert record == {
        "id": record["id"],
        "job_id": one.uuid,
        "path": "dist/a.tar.gz",
        "filename": "a.tar.gz",
        "mime_type": "application/gzip",
        "file_size": 1,
        "sha256": hashlib.sha256(b"a").hexdigest(),
        "created_at": "2026-01-02T03:04:05.000000Z",
        "download_url": f"https://ci.example.org{build.path}/artifacts/{record['id']}/download",
    }
    assert [record["mime_type"] for record in listed["data"][1:]] == ["application/json", "application/octet-stream"]
    assert build.get(f"/jobs/{two.uuid}/artifacts").json["data"] == listed["data"][2:]


def test_lists_are_paged_with_cursors_of_their_own(build: BuildPath):
    leave(build.job(), **{f"file-{number}": b"" for number in range(5)})
    below = f"/jobs/{build.job().uuid}/artifacts"
    for path, other in (("/artifacts", below), (below, "/artifacts")):
        names, cursor = [], None
        while True:
            page = build.get(path, params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json
            names += [record["path"] for record in page["data"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
            assert build.get(other, params={"cursor": cursor}).status_code == 422
        assert names == [f"file-{number}" for number in range(5)]
    assert build.get("/artifacts", params={"limit": 101}).json["error"]["code"] == "invalid_limit"


def test_a_download_is_the_file_and_nothing_that_a_browser_shows(ada: Account, url: str):
    answered = ada.client.simulate_get(url)

    assert (answered.status_code, answered.content) == (200, TEXT)
    assert answered.headers["Content-Type"] == "application/octet-stream"
    assert answered.headers["Content-Length"] == str(len(TEXT))
    assert answered.headers["Accept-Ranges"] == "bytes"
    assert answered.headers["ETag"] == f'"{hashlib.sha256(TEXT).hexdigest()}"'
    assert answered.headers["X-Content-Type-Options"] == "nosniff"
    assert answered.headers["Content-Disposition"].startswith('attachment; filename="report.html";')


@pytest.mark.parametrize(
    ("header", "start", "end"),
    [("bytes=0-0", 0, 1), ("bytes=5-9", 5, 10), ("bytes=100-", 100, len(TEXT)), ("bytes=-7", len(TEXT) - 7, len(TEXT))],
)
def test_a_range_is_answered_with_its_bytes(ada: Account, url: str, header: str, start: int, end: int):
    answered = ada.client.simulate_get(url, headers={"Range": header})

    assert (answered.status_code, answered.content) == (206, TEXT[start:end])
    assert answered.headers["Content-Range"] == f"bytes {start}-{end - 1}/{len(TEXT)}"
    assert answered.headers["Content-Length"] == str(end - start)


def test_a_range_past_the_end_is_not_satisfiable(ada: Account, url: str):
    answered = ada.client.simulate_get(url, headers={"Range": f"bytes={len(TEXT)}-"})

    assert (answered.status_code, answered.json["error"]["code"]) == (416, "range_not_satisfiable")
    assert answered.headers["Content-Range"] == f"bytes */{len(TEXT)}"


def test_head_answers_as_get_does_without_the_file(ada: Account, url: str):
    answered = ada.client.simulate_head(url)

    assert (answered.status_code, answered.content) == (200, b"")
    assert answered.headers["Content-Length"] == str(len(TEXT))
    assert answered.headers["ETag"] == f'"{hashlib.sha256(TEXT).hexdigest()}"'


def test_an_empty_file_is_a_file(ada: Account, build: BuildPath):
    (left,) = leave(build.job(), empty=b"")
    answered = build.get(f"/artifacts/{left.uuid}/download")

    assert (answered.status_code, answered.content, answered.headers["Content-Length"]) == (200, b"", "0")


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ('a"; filename="evil.exe', "a_; filename=_evil.exe"),
        ("a\r\nSet-Cookie: x=y", "a__Set-Cookie: x=y"),
        ("grün ☃.txt", "gr_n _.txt"),
        ("100%\\x", "100__x"),
        ("a;b'c", "a;b'c"),
    ],
)
def test_whatever_its_name_a_file_is_saved_under_it(build: BuildPath, name: str, plain: str):
    (left,) = leave(build.job(), **{f"folder/{name}": b"x"})
    header = build.get(f"/artifacts/{left.uuid}/download").headers["Content-Disposition"]

    assert header.isascii()
    ascii_part, encoded = header.removeprefix("attachment; ").split("; filename*=UTF-8''")
    assert ascii_part == f'filename="{plain}"'
    assert unquote(encoded) == name
    assert not set(encoded) & set("\"';, \r\n")


def test_only_readers_of_the_build_read_its_artifacts(world: World, bob: Account, build: BuildPath, url: str):
    job = build.job()
    for path in (f"{build.path}/artifacts", f"{job.path}/artifacts", url):
        assert world.anonymous.simulate_get(path).status_code == 401
        refused = bob.client.simulate_get(path)
        assert (refused.status_code, refused.json["error"]["code"]) == (404, "organization_not_found")


def test_artifacts_of_a_public_pipeline_are_for_members_alone(world: World, ada: Account, bob: Account):
    build = ada.pipeline("open", visibility="public").build()
    job = build.job()
    (left,) = leave(job, f=b"ours")

    for path in (f"{build.path}/artifacts", f"{job.path}/artifacts", f"{build.path}/artifacts/{left.uuid}/download"):
        assert world.anonymous.simulate_get(path).status_code == 401
        assert bob.client.simulate_get(path).json["error"]["code"] == "organization_not_found"
        assert ada.client.simulate_get(path).status_code == 200


def test_another_builds_artifact_or_an_invalid_id_is_not_found(pipeline: PipelinePath, build: BuildPath):
    (left,) = leave(build.job(), f=b"x")
    other = pipeline.build()
    for path in (f"{left.uuid}", "0b9d6f0e-3f0c-4a53-9d0a-5f5f9d6c1d2e", "nothing", "..", "%00"):
        answered = other.get(f"/artifacts/{path}/download")
        assert (answered.status_code, answered.json["error"]["code"]) == (404, "artifact_not_found"), path
    assert build.get("/jobs/nothing/artifacts").json["error"]["code"] == "job_not_found"


def test_an_expired_artifact_is_410_with_the_date(storage: Storage, build: BuildPath, url: str):
    assert storage.builds.move(build.stored.id, BuildState.SCHEDULED, BuildState.PASSED)
    storage.artifact_retention.expire(storage.artifact_retention.oldest_first())

    answered = build.account.client.simulate_get(url)
    assert (answered.status_code, answered.json["error"]["code"]) == (410, "artifact_expired")
    assert "2026-01-02" in answered.json["error"]["message"]
    assert build.get("/artifacts").json["data"] == []


@pytest.mark.parametrize("left", [None, b"half"])
def test_a_lost_or_incomplete_file_is_410_and_logged(
    storage: Storage, build: BuildPath, url: str, left: bytes | None, caplog: pytest.LogCaptureFixture
):
    (artifact,) = storage.artifacts.of_job(build.job().stored.id)
    path = storage.artifacts.path(artifact)
    path.unlink() if left is None else path.write_bytes(left)
    with caplog.at_level(logging.ERROR):
        answered = build.account.client.simulate_get(url)

    assert (answered.status_code, answered.json["error"]["code"]) == (410, "artifact_expired")
    assert artifact.uuid in caplog.text


def test_a_bad_token_is_refused_even_if_none_is_needed(world: World, ada: Account):
    build = ada.pipeline("open", visibility="public").build()
    client = testing.TestClient(world.app, headers={"Authorization": "Bearer nonsense"})
    assert client.simulate_get(f"{build.path}/jobs").status_code == 401
