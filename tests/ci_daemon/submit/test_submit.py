from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from ci_daemon.command import main
from ci_daemon.submit.packing import pack
from storage import BuildState, JobState, LedgerSource
from tests.ci_daemon.scripted_service import ScriptedBuild, ScriptedService, scripted_service

Submit = Callable[..., int]

FORK = {
    "version": "0",
    "graph": {
        "nodes": [
            {"step": {"key": "install", "cmd": "true", "label": "Install"}, "env": {}},
            {"step": {"key": "lint", "cmd": "true", "label": "Lint"}, "env": {}},
            {"step": {"key": "test", "cmd": "true", "label": "test"}, "env": {}},
        ],
        "edges": [[0, 1, "builds_in"], [0, 2, "builds_in"]],
    },
}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ScriptedService]:
    with scripted_service(tmp_path) as service:
        yield service


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "demo"
    tree.mkdir()
    (tree / "main.py").write_text("print()\n")
    return tree


@pytest.fixture
def ir(tmp_path: Path) -> Path:
    file = tmp_path / "pipeline.ir.json"
    file.write_text(json.dumps(FORK))
    return file


@pytest.fixture
def submit(service: ScriptedService, tree: Path, ir: Path, monkeypatch: pytest.MonkeyPatch) -> Submit:
    monkeypatch.setenv("CI_DAEMON_URL", service.url)
    monkeypatch.setenv("CI_DAEMON_TOKEN", service.token)

    def submit(*options: str) -> int:
        return main(["submit", str(tree), "--pipeline", "demo", "--ir", str(ir), *options])

    return submit


def passing(build: ScriptedBuild) -> None:
    build.run("install", "installed\n", seconds=100)
    build.run("lint", "clean\n")
    build.run("test", "ok\n", seconds=200)
    build.move_build(BuildState.PASSED)


def failing(build: ScriptedBuild) -> None:
    build.run("install", "installed\n")
    build.start("test")
    build.write("test", "1 failed")
    build.finish("test", JobState.FAILED, exit_code=7)
    build.move("lint", JobState.SKIPPED)
    build.move_build(BuildState.FAILED)


def canceled(build: ScriptedBuild) -> None:
    for key in ("install", "lint", "test"):
        build.move(key, JobState.CANCELED)
    build.move_build(BuildState.CANCELED)


def test_output_has_every_jobs_log_then_times_and_costs(
    service: ScriptedService, submit: Submit, capsys: pytest.CaptureFixture[str]
):
    with service.scripted(passing):
        assert submit() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"created the pipeline demo in {service.org}"
    assert lines[1] == f"build #1 of {service.org}/demo: 1 files packed"
    assert "Install | installed" in lines
    assert "Lint    | clean" in lines
    assert "test    | ok" in lines
    assert lines.index("Install | installed") < lines.index("Install | * passed in 1 min 40 s")
    table = [re.split(r"\s{2,}", line.strip()) for line in lines[lines.index("") + 1 :]]
    assert table[:4] == [
        ["job", "state", "time", "cents"],
        ["Install", "passed", "1 min 40 s", "4"],
        ["Lint", "passed", "1.0 s", "0"],
        ["test", "passed", "3 min 20 s", "8"],
    ]
    assert lines[-3] == "build #1 passed in 5 min 1 s, 12 cents"
    assert "/builds/1/jobs" in lines[-2]


def test_a_job_is_running_before_its_first_line(
    service: ScriptedService, submit: Submit, capsys: pytest.CaptureFixture[str]
):
    """This holds if the command ends before its states are read, or starts between two reads."""

    def before_its_end(build: ScriptedBuild) -> None:
        build.run("install", "installed\n")
        build.assign("lint")
        assert service.engine.readers_added.acquire(timeout=30), "no reader follows"
        build.start("lint")
        build.write("lint", "linting\n")
        build.finish("lint")
        build.run("test", "")
        build.move_build(BuildState.PASSED)

    with service.scripted(before_its_end):
        assert submit() == 0
    lines = capsys.readouterr().out.splitlines()
    for name, line in (("Install", "installed"), ("Lint   ", "linting"), ("test   ", "* passed in 1.0 s")):
        assert lines.count(f"{name} | * running") == 1
        assert lines.index(f"{name} | * running") < lines.index(f"{name} | {line}")


def test_a_failure_is_the_exit_code_and_says_where_its_log_is(
    service: ScriptedService, submit: Submit, capsys: pytest.CaptureFixture[str]
):
    with service.scripted(failing):
        assert submit() == 1
    out = capsys.readouterr().out
    assert "test    | 1 failed\n" in out
    assert "test    | * failed in 0.0 s: exit code 7\n" in out
    assert "Lint    | * skipped\n" in out
    failed = next(job for job in service.storage.jobs.of_build(1) if job.step_key == "test")
    assert f"/jobs/{failed.uuid}/log" in out


def test_a_canceled_build_is_exit_code_3(service: ScriptedService, submit: Submit):
    with service.scripted(canceled):
        assert submit() == 3


def test_json_is_one_document_on_stdout_and_the_log_on_stderr(
    service: ScriptedService, submit: Submit, capsys: pytest.CaptureFixture[str]
):
    with service.scripted(failing):
        assert submit("--json") == 1
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert (document["number"], document["state"], document["cents"]) == (1, "failed", 0)
    assert [(job["step_key"], job["state"], job["exit_code"]) for job in document["jobs"]] == [
        ("install", "passed", 0),
        ("lint", "skipped", None),
        ("test", "failed", 7),
    ]
    assert "test    | 1 failed" in printed.err


def test_ends_with_the_lines_it_is_given(service: ScriptedService, submit: Submit, capsys: pytest.CaptureFixture[str]):
    with service.scripted(passing):
        assert submit("--then", "now this", "--then", "and that") == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["now this", "and that"]


def test_the_build_has_gits_branch_commit_and_message(
    service: ScriptedService, submit: Submit, tree: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for arguments in (
        ["init", "-q", "-b", "trunk"],
        ["remote", "add", "origin", "https://ada:secret@example.org/acme/demo.git"],
        ["add", "main.py"],
        [*who, "commit", "-q", "-m", "Say nothing\n\nat length"],
    ):
        subprocess.run(["git", *arguments], cwd=tree, check=True)
    with service.scripted(passing):
        assert submit() == 0
    build = service.storage.builds.get(1)
    assert (build.branch, build.message, len(build.commit)) == ("trunk", "Say nothing", 40)
    pipeline = service.storage.pipelines.by_id(build.pipeline_id)
    assert (pipeline.repository, pipeline.repo_name) == ("https://example.org/acme/demo.git", "acme/demo")
    assert pipeline.default_branch == "trunk"


def test_without_git_the_build_is_of_main_at_the_null_commit(service: ScriptedService, submit: Submit):
    with service.scripted(passing):
        assert submit() == 0
    build = service.storage.builds.get(1)
    assert (build.branch, build.commit, build.message, build.source) == ("main", "0" * 40, None, "cli")
    assert not build.debug


def test_options_stand_above_git(service: ScriptedService, submit: Submit):
    with service.scripted(passing):
        assert submit("--branch", "b", "--commit", "c0ffee", "--message", "m", "--org", service.org, "--debug") == 0
    build = service.storage.builds.get(1)
    assert (build.branch, build.commit, build.message, build.debug) == ("b", "c0ffee", "m", True)


def test_the_source_that_arrives_is_the_packed_tree(service: ScriptedService, submit: Submit, tree: Path):
    with service.scripted(passing):
        assert submit() == 0
    assert service.storage.sources.path(service.storage.builds.get(1).uuid).read_bytes() == pack(tree).data


def test_a_restart_of_the_service_ends_nothing(
    service: ScriptedService, submit: Submit, capsys: pytest.CaptureFixture[str]
):
    def restarting(build: ScriptedBuild) -> None:
        build.start("install")
        build.write("install", "before\n")
        assert service.engine.readers_added.acquire(timeout=30), "no reader follows"
        service.restart()
        build.write("install", "after\n")
        build.finish("install")
        build.run("lint", "")
        build.run("test", "")
        build.move_build(BuildState.PASSED)

    with service.scripted(restarting):
        assert submit() == 0
    out = capsys.readouterr().out
    assert out.count("Install | before\n") == 1
    assert out.count("Install | after\n") == 1


def test_more_jobs_than_readers_all_come_to_their_end(
    service: ScriptedService, submit: Submit, ir: Path, capsys: pytest.CaptureFixture[str]
):
    count = 30
    steps = [
        {"type": "command", "key": f"job-{number}", "label": f"job-{number}", "cmd": "true"} for number in range(count)
    ]
    ir.write_text(json.dumps({"version": "0", "steps": steps}))

    def many(build: ScriptedBuild) -> None:
        for number in range(count):
            build.start(f"job-{number}")
            build.write(f"job-{number}", f"line of {number}")
        for number in reversed(range(count)):
            build.finish(f"job-{number}")
        build.move_build(BuildState.PASSED)

    with service.scripted(many):
        assert submit() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [lines.count(f"{f'job-{number}':6} | line of {number}") for number in range(count)] == [1] * count


def test_ctrl_c_leaves_the_build_running_and_explains_cancel(service: ScriptedService, tree: Path, ir: Path):
    argv = [sys.executable, "-m", "ci_daemon", "submit", str(tree), "--pipeline", "demo", "--ir", str(ir)]
    environ = {**os.environ, "CI_DAEMON_URL": service.url, "CI_DAEMON_TOKEN": service.token}
    with (
        service.scripted(lambda build: build.start("install")),
        subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE, text=True) as process,
    ):
        assert any(line == "Install | * running\n" for line in process.stdout)
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(10) == 130
    assert "build #1 continues" in rest
    assert f'-X PUT -H "Authorization: Bearer $CI_DAEMON_TOKEN" {service.url}' in rest
    assert service.storage.builds.get(1).state is BuildState.RUNNING


def test_ctrl_c_cancels_where_that_is_wanted(service: ScriptedService, tree: Path, ir: Path):
    argv = [sys.executable, "-m", "ci_daemon", "submit", str(tree), "--pipeline", "demo", "--ir", str(ir)]
    environ = {**os.environ, "CI_DAEMON_URL": service.url, "CI_DAEMON_TOKEN": service.token}
    with (
        service.scripted(lambda build: build.start("install")),
        subprocess.Popen([*argv, "--cancel-on-interrupt"], env=environ, stdout=subprocess.PIPE, text=True) as process,
    ):
        assert any(line == "Install | * running\n" for line in process.stdout)
        process.send_signal(signal.SIGINT)
        assert process.stdout.read().splitlines()[-1] == "build #1 is canceled"
        assert process.wait(10) == 130
    assert service.engine.canceled == [1]


def test_a_rejected_pipeline_is_reported_and_its_build_stays(
    service: ScriptedService, submit: Submit, ir: Path, capsys: pytest.CaptureFixture[str]
):
    ir.write_text('{"version": "1"}')
    assert submit() == 1
    assert 'expected version "0", got "1"' in capsys.readouterr().err
    assert service.pipelines() == ["demo"]
    assert service.storage.builds.get(1).error_code == "bad_version"


def test_missing_credit_is_an_error_and_creates_no_pipeline(
    service: ScriptedService, submit: Submit, capsys: pytest.CaptureFixture[str]
):
    service.storage.billing = replace(service.storage.billing, require_credit=True)
    service.storage.ledger.append(1, -1000, LedgerSource.REFUND, None)
    assert submit() == 1
    assert "ci-daemon: " in capsys.readouterr().err
    assert service.pipelines() == []


def test_a_wrong_key_is_reported(submit: Submit, capsys: pytest.CaptureFixture[str]):
    assert submit("--token", "ci_wrong") == 1
    assert "CI_DAEMON_TOKEN" in capsys.readouterr().err


def test_a_missing_key_is_reported(submit: Submit, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.delenv("CI_DAEMON_TOKEN")
    assert submit() == 1
    assert "set CI_DAEMON_TOKEN" in capsys.readouterr().err


def test_a_missing_organization_is_reported(submit: Submit, capsys: pytest.CaptureFixture[str]):
    assert submit("--org", "no/body") == 1
    assert "organization" in capsys.readouterr().err


def test_an_invalid_slug_is_reported_with_a_valid_one(
    service: ScriptedService, tree: Path, ir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("CI_DAEMON_URL", service.url)
    monkeypatch.setenv("CI_DAEMON_TOKEN", service.token)
    assert main(["submit", str(tree), "--pipeline", "My Demo", "--ir", str(ir)]) == 1
    assert "give --pipeline my-demo" in capsys.readouterr().err
    assert service.pipelines() == []


def test_a_binary_file_is_reported(submit: Submit, ir: Path, capsys: pytest.CaptureFixture[str]):
    ir.write_bytes(b"\xff\xfe\x00")
    assert submit() == 1
    assert "is not UTF-8 text" in capsys.readouterr().err


def test_a_missing_pipeline_is_reported(submit: Submit, tree: Path, ir: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["submit", str(tree), "--token", "any"]) == 1
    assert f"{tree} has no pipeline: write one in {tree}/.hm/*.py, or give --ir FILE" in capsys.readouterr().err
    ir.write_text("\n")
    assert submit() == 1
    assert f"{ir} is empty: give --ir the JSON" in capsys.readouterr().err


def test_a_tree_too_large_for_the_service_is_refused_with_advice(
    tmp_path: Path, tree: Path, ir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (tree / "large").write_bytes(os.urandom(20_000))
    with scripted_service(tmp_path, max_body_bytes=10_000) as service:
        monkeypatch.setenv("CI_DAEMON_URL", service.url)
        monkeypatch.setenv("CI_DAEMON_TOKEN", service.token)
        assert main(["submit", str(tree), "--ir", str(ir)]) == 1
        assert service.pipelines() == []
    printed = capsys.readouterr().err
    assert "the body is larger than 10000 bytes: exclude files that no step needs in .gitignore, or raise" in printed


def test_few_stream_slots_still_give_every_line_to_everyone(
    tmp_path: Path, tree: Path, ir: Path, capsys: pytest.CaptureFixture[str]
):
    steps = [{"type": "command", "key": key, "label": key, "cmd": "true"} for key in ("one", "two", "three")]
    ir.write_text(json.dumps({"version": "0", "steps": steps}))

    def one_by_one(build: ScriptedBuild) -> None:
        for key in ("one", "two", "three"):
            build.start(key)
            build.write(key, f"{key} begins\n")
        assert build.service.engine.readers_added.acquire(timeout=30), "no reader follows"
        for key in ("one", "two", "three"):
            build.write(key, f"{key} ends")
            build.finish(key)
        build.move_build(BuildState.PASSED)

    with scripted_service(tmp_path / "small", max_streams=1) as service:
        options = ["--url", service.url, "--token", service.token, "--pipeline", "demo", "--ir", str(ir)]
        with service.scripted(one_by_one):
            assert main(["submit", str(tree), *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    for key in ("one", "two", "three"):
        assert lines.count(f"{key:5} | {key} begins") == lines.count(f"{key:5} | {key} ends") == 1


def test_an_unreachable_service_is_reported_at_once(submit: Submit, capsys: pytest.CaptureFixture[str]):
    assert submit("--url", "http://127.0.0.1:9") == 1
    assert "no service answers at http://127.0.0.1:9" in capsys.readouterr().err


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host",
        "host",
        "http://",
        "http://[::1",
        "http://a b",
        "http://h:port",
        "http://h:99999",
        "http://h\x01",
        "http://user@h",
        "http://h?q",
        "http://h#f",
        f"http://{'a' * 64}",
    ],
)
def test_an_invalid_url_is_reported(submit: Submit, capsys: pytest.CaptureFixture[str], url: str):
    assert submit("--url", url) == 2
    assert f"{url} is not a URL: give one such as https://ci.example.org" in capsys.readouterr().err


@pytest.mark.parametrize("token", ["ci_\u00e9", "ci_a\nb", "ci_\x1b"])
def test_a_malformed_key_is_reported(submit: Submit, capsys: pytest.CaptureFixture[str], token: str):
    assert submit("--token", token) == 2
    assert "this is not an API key" in capsys.readouterr().err


def test_a_key_may_end_with_the_line_break_of_its_file(service: ScriptedService, submit: Submit):
    with service.scripted(passing):
        assert submit("--token", f"{service.token}\n") == 0


class Stranger(BaseHTTPRequestHandler):
    """A web server that is not the service."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path.endswith("/user") else 500)
        self.end_headers()
        self.wfile.write(b"<html>")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def stranger() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Stranger) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_another_server_is_recognized(submit: Submit, stranger: str, capsys: pytest.CaptureFixture[str]):
    assert submit("--url", stranger) == 1
    assert f"the answer of {stranger} is not that of a ci-daemon: check CI_DAEMON_URL" in capsys.readouterr().err
    assert submit("--url", stranger, "--org", "acme") == 1
    assert "answered with status 500 and no error message" in capsys.readouterr().err


def test_costs_are_found_past_the_first_page_of_debits(
    service: ScriptedService, submit: Submit, capsys: pytest.CaptureFixture[str]
):
    def busy(build: ScriptedBuild) -> None:
        build.run("install", "", seconds=100)
        for _ in range(120):
            service.storage.ledger.append(1, -1, LedgerSource.VM_LEASE_DEBIT, "other #1 x")
        build.run("lint", "")
        build.run("test", "")
        build.move_build(BuildState.PASSED)

    with service.scripted(busy):
        assert submit("--json") == 0
    assert [job["cents"] for job in json.loads(capsys.readouterr().out)["jobs"]] == [4, 0, 0]
