"""The README's example, and logs that are followed live."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest

from tests.e2e.daemon import Client, Daemon, Pipeline
from tests.e2e.pipelines import Graph, one
from tests.git_repository import GitRepository

EXAMPLE = Path(__file__).parents[3] / "examples" / "hello"
OF_SEVERAL = Path(__file__).parents[2] / "data" / "render" / "05-multi"


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    """Let one account follow as many logs at once as a test has readers."""
    return {"CI_DAEMON_POOL_PARKED": "1", "CI_DAEMON_POOL_MAX_VMS": "4", "CI_DAEMON_HTTP_MAX_STREAMS_PER_READER": "40"}


def submit(client: Client, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `ci-daemon submit` as a user does."""
    environ = {**os.environ, "CI_DAEMON_URL": client.daemon.url, "CI_DAEMON_TOKEN": client.token}
    command = [sys.executable, "-m", "ci_daemon", "submit", *arguments]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=120)


def test_the_example_passes_with_every_line_under_its_jobs_name(client: Client):
    done = submit(client, str(EXAMPLE))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Install | installed ordinal" in done.stdout
    assert "Test    | OK" in done.stdout
    assert "Report  | 5 tests" in done.stdout
    jobs = client.get("pipelines/hello/builds/1/jobs")["data"]
    assert {job["state"] for job in jobs} == {"passed"}


def test_a_pipeline_has_its_own_slug_and_not_its_folders(client: Client, tmp_path: Path):
    (tmp_path / "web-shop" / ".hm").mkdir(parents=True)
    text = 'import harmont as hm\n@hm.pipeline("release", name="Release")\ndef run():\n    return hm.sh("true")\n'
    (tmp_path / "web-shop" / ".hm" / "anything.py").write_text(text)
    done = submit(client, str(tmp_path / "web-shop"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert [each["slug"] for each in client.get("pipelines")["data"]] == ["release"]
    assert client.get("pipelines/release/builds/1/jobs")["data"][0]["name"] == "true"


def test_a_failed_build_is_the_exit_code_of_submit(client: Client, tmp_path: Path):
    (tmp_path / "pipeline.json").write_text(one("ls; exit 4"))
    done = submit(client, str(tmp_path), "--pipeline", "demo", "--ir", str(tmp_path / "pipeline.json"))
    assert done.returncode == 1
    assert "pipeline.json" in done.stdout


def test_git_works_in_a_tree_that_is_submitted_with_it(client: Client, tmp_path: Path):
    repository = GitRepository(tmp_path)
    look = "git describe; git diff --name-only origin/main...; git status --short"
    text = f'import harmont as hm\n@hm.pipeline("ci")\ndef ci():\n    return hm.sh("{look}", label="Look")\n'
    repository.commit("Begin", a="1", **{".hm__pipeline.py": text})
    repository.git("tag", "--annotate", "v1", "--message", "One")
    repository.push("main")
    commit = repository.commit("Topic", b="1")
    (repository.path / "a").write_text("2")
    done = submit(client, str(repository.path), "--git")
    assert done.returncode == 0, done.stdout + done.stderr
    shown = [line.partition(" | ")[2] for line in done.stdout.splitlines()]
    assert f"v1-1-g{commit[:7]}" in shown, done.stdout
    assert shown[shown.index(f"v1-1-g{commit[:7]}") + 1 :][:2] == ["b", " M a"]
    refused = submit(client, str(repository.path / ".hm"), "--git", "--ir", str(repository.path / "a"))
    assert f"is a folder of the git repository {repository.path}: submit that" in refused.stderr


def test_with_several_pipelines_one_must_be_named(client: Client):
    """No pipeline is made for the folder."""
    refused = submit(client, str(OF_SEVERAL))
    assert refused.returncode == 1
    assert refused.stderr.endswith("available: ci, nightly, deploy: choose one with --pipeline\n")
    assert client.get("pipelines")["data"] == []


def events(client: Client, job: str, token: str, last: int | None = None) -> list[tuple[str, dict[str, object]]]:
    """Return all events of a job's log stream, up to its end."""
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    url = f"{client.daemon.url}/v0/jobs/{job}/logs"
    found = []
    with httpx.stream("GET", url, params={"token": token}, headers=headers, timeout=60) as response:
        assert response.status_code == 200
        kind = ""
        for line in response.iter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                found.append((kind, json.loads(line.removeprefix("data: "))))
    return found


def chunks(found: list[tuple[str, dict[str, object]]]) -> list[dict[str, object]]:
    return [
        c for kind, data in found for c in (data["chunks"] if kind == "history" else [data] if kind == "chunk" else [])
    ]


def test_a_browser_follows_a_growing_log_and_resumes(pipeline: Pipeline):
    build = pipeline.build(one("for i in 1 2 3 4 5; do echo line $i; sleep 0.3; done"))
    build.job("only", "running")
    token = pipeline.client.get(f"{build.path}/log-token")["token"]
    job = build.jobs()["only"]["id"]
    found = events(pipeline.client, job, token)
    assert found[0][0] == "history"
    assert found[-1] == ("done", {})
    parts = chunks(found)
    assert "".join(str(part["content"]) for part in parts) == "".join(f"line {i}\n" for i in range(1, 6))
    assert len(parts) >= 3
    seen = parts[1]["seq"]
    again = chunks(events(pipeline.client, job, token, int(str(seen))))
    assert again == parts[2:]


def test_a_ranged_read_waits_for_unwritten_output(pipeline: Pipeline):
    build = pipeline.build(one("echo first; sleep 1; echo second"))
    build.says("first")
    job = build.jobs()["only"]["id"]
    path = f"{build.path}/jobs/{job}/log"
    response = pipeline.client.request("GET", path, params={"wait": 30}, headers={"Range": "bytes=6-"})
    assert (response.status_code, response.text) == (206, "second\n")
    build.finish()
    response = pipeline.client.request("GET", path)
    assert (response.text, response.headers["X-Log-Complete"]) == ("first\nsecond\n", "true")


def test_readers_of_every_log_do_not_keep_others_waiting(daemon: Daemon, pipeline: Pipeline):
    graph = Graph()
    for number in range(4):
        graph.step(f"job-{number}", "echo begun; sleep 600")
    build = pipeline.build(graph.ir())
    token = pipeline.client.get(f"{build.path}/log-token")["token"]
    ids = [job["id"] for job in build.jobs().values()]
    logs: list[list[dict[str, object]]] = []
    readers = [
        threading.Thread(target=lambda job=job: logs.append(chunks(events(pipeline.client, job, token))))
        for job in ids * 10
    ]
    for reader in readers:
        reader.start()
    for key in build.states():
        build.says("begun", key)
    for _ in range(20):
        assert httpx.get(f"{daemon.url}/api/v0/ping", timeout=30).json() == {"status": "ok"}
    build.cancel()
    for reader in readers:
        reader.join(60)
    assert ["".join(str(part["content"]) for part in log) for log in logs] == ["begun\n"] * 40
