"""`ci-daemon artifact` with a server, and the writing of files of strangers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from api.operations import ArtifactRecord
from ci_daemon.command import main
from ci_daemon.remote.download import DownloadRefused, download, place
from ci_daemon.remote.errors import Backoff, ServiceUnreachable
from storage import NewBuild, Pipeline
from tests.ci_daemon.remote.conftest import Printed, RunJson
from tests.ci_daemon.scripted_service import ScriptedService
from tests.records import new_job

CONTENT = b"0123456789" * 100
ARTIFACT = ArtifactRecord(
    "1",
    "2",
    "a.bin",
    "a.bin",
    "application/octet-stream",
    len(CONTENT),
    hashlib.sha256(CONTENT).hexdigest(),
    datetime.now(UTC),
    "",
)


@pytest.fixture
def build(service: ScriptedService, pipeline: Pipeline, at_server: None) -> str:
    """The name of a build whose jobs kept files, among them one with a hostile name."""
    storage = service.storage
    build = storage.builds.create(pipeline, NewBuild("main", "c0ffee", pipeline_ir="{}"), [new_job("a"), new_job("b")])
    first, second = storage.jobs.of_build(build.id)
    of_first = {"dist/a.whl": CONTENT, "report.xml": b"<a/>"}
    of_second = {"report.xml": b"<b/>", "x\x1b[2J": b""}
    for job, files in ((first, of_first), (second, of_second)):
        new = [storage.artifacts.files.write(build.uuid, path, [content]) for path, content in files.items()]
        storage.artifacts.store(build, job, new)
    return f"{service.org}/web/1"


def test_artifacts_are_listed_by_globs_and_jobs(build: str, printed: Printed, run_json: RunJson):
    assert [each["path"] for each in run_json("artifact", "list", build, "dist/**", "*.xml")] == [
        "dist/a.whl",
        "report.xml",
        "report.xml",
    ]
    assert [each["job"] for each in run_json("artifact", "list", build, "--job", "b")] == ["b", "b"]
    assert not any("\x1b" in line for line in printed("artifact", "list", build))
    assert printed("artifact", "list", build, "*.none") == [f"build {build} has no such artifact"]


def test_artifacts_are_got_once(
    service: ScriptedService, build: str, tmp_path: Path, printed: Printed, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert printed("artifact", "get", build, "--job", "a") == ["web-1/dist/a.whl", "web-1/report.xml"]
    assert (tmp_path / "web-1" / "dist" / "a.whl").read_bytes() == CONTENT
    assert printed("artifact", "get", build, "dist") == ["web-1/dist/a.whl (was there already)"]
    (tmp_path / "web-1" / "report.xml").write_text("mine")
    assert printed("artifact", "get", build, "report.xml", "--job", "b", code=1) == []
    assert (tmp_path / "web-1" / "report.xml").read_text() == "mine"
    monkeypatch.setenv("CI_DAEMON_STATE_DIR", str(service.storage.directory))
    assert printed("artifact", "get", build, "dist", "--to", "box") == ["box/dist/a.whl"]
    assert (tmp_path / "box" / "dist" / "a.whl").read_bytes() == CONTENT


def test_files_of_one_path_need_a_choice(build: str, capsys: pytest.CaptureFixture[str]):
    assert main(["artifact", "get", build, "report.xml"]) == 1
    assert "2 jobs kept report.xml: choose one with --job STEP" in capsys.readouterr().err


class Source:
    """A file of a server that breaks off after some bytes, once for each entry."""

    def __init__(self, content: bytes, *breaks: int) -> None:
        self.content, self.breaks, self.starts = content, list(breaks), list[int]()

    @contextmanager
    def open_from(self, start: int) -> Iterator[Iterator[bytes]]:
        self.starts.append(start)
        yield self._chunks(start, self.breaks.pop(0) if self.breaks else None)

    def _chunks(self, start: int, most: int | None) -> Iterator[bytes]:
        yield self.content[start:] if most is None else self.content[start : start + most]
        if most is not None:
            raise ServiceUnreachable("away")


def fetched(file: Path, source: Source, artifact: ArtifactRecord = ARTIFACT, seconds: float = 0.0) -> bool:
    return download(artifact, file, source.open_from, Backoff(seconds), lambda _done: None)


def test_a_broken_download_goes_on_where_it_was(tmp_path: Path):
    source = Source(CONTENT, 10, 90)
    for _ in range(2):
        with pytest.raises(ServiceUnreachable):
            fetched(tmp_path / "a.bin", source)
        assert not (tmp_path / "a.bin").exists()
    assert fetched(tmp_path / "a.bin", source)
    assert (source.starts, (tmp_path / "a.bin").read_bytes()) == ([0, 10, 100], CONTENT)
    assert [file.name for file in tmp_path.iterdir()] == ["a.bin"]


def test_a_service_that_restarts_is_asked_again(tmp_path: Path):
    assert fetched(tmp_path / "a.bin", source := Source(CONTENT, 10), seconds=30.0)
    assert source.starts == [0, 10]


@pytest.mark.parametrize("content", [CONTENT[:-1] + b"x", CONTENT + b"more", CONTENT[:-1], b""])
def test_other_bytes_are_an_error_and_leave_nothing(tmp_path: Path, content: bytes):
    with pytest.raises(DownloadRefused, match="the bytes are not those of the artifact"):
        fetched(tmp_path / "a.bin", Source(content))
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_got(tmp_path: Path):
    empty = replace(ARTIFACT, file_size=0, sha256=hashlib.sha256().hexdigest())
    assert fetched(tmp_path / "a.bin", Source(b""), empty)
    assert (tmp_path / "a.bin").read_bytes() == b""


@pytest.mark.parametrize("path", ["../a", "a/../../b", "/etc/passwd", "", ".", "..", "a\0b", "link/a", "folder"])
def test_a_path_never_leads_out_of_the_folder(tmp_path: Path, path: str):
    (tmp_path / "to" / "folder").mkdir(parents=True)
    (tmp_path / "to" / "link").symlink_to(tmp_path)
    with pytest.raises(DownloadRefused):
        place(tmp_path / "to", path)


def test_a_link_in_the_place_of_a_file_is_not_followed(tmp_path: Path):
    (tmp_path / "a.bin").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DownloadRefused, match="is there already"):
        fetched(tmp_path / "a.bin", Source(CONTENT))
    (tmp_path / "b.bin.part").touch()
    (tmp_path / f".{ARTIFACT.sha256}.part").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        fetched(tmp_path / "b.bin", Source(CONTENT))
    assert not (tmp_path / "elsewhere").exists()
