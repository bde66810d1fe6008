from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ci_daemon.command import main
from ci_daemon.submit.client import Client
from ci_daemon.submit.packing import pack
from storage import BuildState, JobState, LedgerSource
from tests.ci_daemon.scripted_service import ScriptedBuild, ScriptedService, scripted_service
from tests.ci_daemon.submit.builds import Submit, passing
from tests.processes import ended


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
    assert lines[1] == f"build #1 of {service.org}/demo: 1 file packed"
    assert lines[2] == f"http://localhost:{urlsplit(service.url).port}/{service.org}/pipelines/demo/builds/1"
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
    assert lines[-2:] == [
        "build #1 passed in 5 min 1 s, 12 cents",
        f"Its logs again: `ci-daemon build logs {service.org}/demo/1`",
    ]


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
        build.assign("test")
        assert service.engine.readers_added.acquire(timeout=30), "no reader follows"
        build.start("test")
        service.clock.advance(1.0)
        build.finish("test")
        build.move_build(BuildState.PASSED)

    with service.scripted(before_its_end):
        assert submit() == 0
    lines = capsys.readouterr().out.splitlines()
    for name, line in (("Install", "installed"), ("Lint   ", "linting"), ("test   ", "* passed in 1.0 s")):
        assert lines.count(f"{name} | * running") == 1
        assert lines.index(f"{name} | * running") < lines.index(f"{name} | {line}")


def test_two_first_submits_build_in_one_pipeline(
    service: ScriptedService, submit: Submit, monkeypatch: pytest.MonkeyPatch
):
    """The second one begins when the first has found that there is no pipeline yet."""
    look = Client.has_pipeline

    def look_and_be_late(client: Client, organization: str, pipeline: str) -> bool:
        found = look(client, organization, pipeline)
        monkeypatch.setattr(Client, "has_pipeline", look)
        with service.scripted(passing):
            assert submit() == 0
        late.enter_context(service.scripted(passing))
        return found

    monkeypatch.setattr(Client, "has_pipeline", look_and_be_late)
    with ExitStack() as late:
        assert submit() == 0
    assert service.pipelines() == ["demo"]
    assert [service.storage.builds.get(number).state for number in (1, 2)] == ["passed", "passed"]


def test_a_refused_first_submit_leaves_builds_of_another(
    service: ScriptedService, submit: Submit, monkeypatch: pytest.MonkeyPatch
):
    create = Client.create_pipeline

    def create_and_be_late(
        client: Client, organization: str, name: str, *, repository: str, default_branch: str
    ) -> str:
        slug = create(client, organization, name, repository=repository, default_branch=default_branch)
        with service.scripted(passing):
            assert submit() == 0
        service.storage.billing = replace(service.storage.billing, require_credit=True)
        service.storage.ledger.append(1, -100_000, LedgerSource.REFUND, None)
        return slug

    monkeypatch.setattr(Client, "create_pipeline", create_and_be_late)
    assert submit() == 1
    assert service.pipelines() == ["demo"]
    assert service.storage.builds.get(1).state == "passed"


def test_a_failure_is_the_exit_code_and_says_where_its_log_is(
    service: ScriptedService, submit: Submit, capsys: pytest.CaptureFixture[str]
):
    with service.scripted(failing):
        assert submit() == 1
    out = capsys.readouterr().out
    assert "test    | 1 failed\n" in out
    assert "test    | * failed in 0.0 s: exit code 7\n" in out
    assert "Lint    | * skipped\n" in out
    assert out.endswith(f"The log of what failed: `ci-daemon build logs {service.org}/demo/1 test`\n")


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
    assert document["url"].endswith(f"/{service.org}/pipelines/demo/builds/1")
    assert [(job["step_key"], job["state"], job["exit_code"]) for job in document["jobs"]] == [
        ("install", "passed", 0),
        ("lint", "skipped", None),
        ("test", "failed", 7),
    ]
    assert "test    | 1 failed" in printed.err


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
    assert f"`ci-daemon build cancel {service.org}/demo/1` cancels it" in rest
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


def test_ctrl_c_while_the_service_renders_says_what_may_follow(service: ScriptedService, tree: Path):
    (tree / ".hm").mkdir()
    (tree / ".hm" / "pipeline.py").write_text("")
    argv = [sys.executable, "-m", "ci_daemon", "submit", str(tree), "--pipeline", "demo"]
    environ = {**os.environ, "CI_DAEMON_URL": service.url, "CI_DAEMON_TOKEN": service.token}
    rendering = threading.Event()
    service.engine.rendered = lambda _build_id: rendering.set()
    with ended(subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE, text=True)) as process:
        assert rendering.wait(60)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30)[0].splitlines() == [
            f"the service has the files and may build them yet: `ci-daemon build list {service.org}/demo` shows it"
        ]
    assert process.returncode == 130
    assert service.pipelines() == ["demo"]


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
