"""`ci-daemon run` on real VMs: builds, caches, secrets, and a clean end."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from tests.ci_daemon.local.projects import Project, read_until, rest
from tests.e2e.pipelines import Graph
from tests.waiting import until

EXAMPLE = Path(__file__).parents[3] / "examples" / "hello"
STUBBORN = "trap '' TERM; echo began; sleep 600 & wait; wait"
_WITHOUT_NAMESPACES = 'echo 0 >/proc/sys/user/max_user_namespaces; exec "$@"'


def test_runs_a_pipeline_and_starts_from_its_cache_the_next_time(project: Project):
    cached = {"policy": "forever", "key": "v1"}
    graph = Graph().step("install", "date +%N >/stamp; cat word", cache=cached)
    project.write(graph.step("test", "cat /stamp; echo $GREETING, $CI_ORG", builds_in="install"))
    (project.tree / "word").write_text("packed\n")
    code, printed = project.run("--env", "GREETING=Hello")
    lines = printed.splitlines()
    assert code == 0, printed
    assert "install | packed" in lines
    assert "test    | Hello, local" in lines
    assert lines[-1].startswith("build #1 passed in ")
    assert "cents" not in printed
    stamp = next(line for line in lines if line.startswith("test    | ") and line.split()[-1].isdecimal())

    code, printed = project.run("--env", "GREETING=Hello")
    assert code == 0, printed
    assert stamp in printed.splitlines()
    assert "install | packed" not in printed
    code, printed = project.run("--env", "GREETING=Bye")
    assert code == 0, printed
    assert "install | packed" in printed.splitlines()
    assert project.vms() == []
    assert project.state.stat().st_mode & 0o777 == 0o700


def test_renders_the_example_and_one_step_of_it(project: Project):
    project.tree = EXAMPLE
    with project.start_rendered("--step", "lint", "--json", stderr=subprocess.PIPE) as process:
        document = json.loads(rest(process))
        assert process.wait(60) == 0
    assert [(job["step_key"], job["state"], job["cents"]) for job in document["jobs"]] == [
        ("install", "passed", None),
        ("lint", "passed", None),
    ]


@pytest.mark.parametrize(
    ("name", "printed", "passed"),
    [
        ("release", "hello 1.4.0: 5 files", ["version", *["build"] * 5, "release"]),
        ("site", "all links lead somewhere", ["build", "links", "preview"]),
    ],
)
def test_examples_of_files_pass(project: Project, name: str, printed: str, passed: list[str]):
    project.tree = EXAMPLE.parent / name
    with project.start_rendered("--json", stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        document = json.loads(rest(process))
        assert process.wait(60) == 0
        assert printed in process.stderr.read()
    jobs = document["jobs"]
    ended = {job["step_key"]: job["state"] for job in jobs if job["step_key"] != "publish"}  # which is of main alone
    assert [key.split("-")[0] for key in ended] == passed
    assert set(ended.values()) == {"passed"}


def test_the_exit_code_is_that_of_the_build_and_of_refusals(project: Project):
    project.write(Graph().step("fails", "echo no; exit 3").step("needs", "true", runner_args={"secrets": ["TOKEN"]}))
    code, printed = project.run("--step", "fails")
    assert code == 1
    assert "fails | * failed in" in printed
    code, printed = project.run("--step", "misspelt")
    assert (code, "fails, needs" in printed) == (1, True)
    code, printed = project.run()
    assert code == 1
    assert 'the step "needs" needs the secret TOKEN: give --secret TOKEN=@FILE' in printed


def test_a_hidden_failure_is_told_before_the_build(project: Project):
    project.write(Graph().step("lint", "false\necho done").step("other", "false\necho done"))
    code, printed = project.run("--step", "lint")
    assert code == 0, printed
    (warning,) = (line for line in printed.splitlines() if line.startswith("warning: "))
    assert warning.startswith('warning: step "lint": a line that fails does not fail the step')


def test_in_a_strict_shell_the_first_failure_fails_a_step(project: Project):
    project.write(Graph().step("lint", "false | cat\necho done"))
    for arguments, environ in ((("--strict-shell",), {}), ((), {"CI_DAEMON_JOBS_STRICT_SHELL": "true"})):
        project.environ = environ
        code, printed = project.run(*arguments)
        assert (code, "warning" in printed, "| done" in printed) == (1, False, False), printed


def test_secrets_come_from_files_and_do_not_stay(project: Project, tmp_path: Path):
    project.write(Graph().step("needs", "echo $TOKEN | tr a-z A-Z; echo $TOKEN", runner_args={"secrets": ["TOKEN"]}))
    (tmp_path / "token").write_text("sesame\n")
    code, printed = project.run("--secret", f"TOKEN=@{tmp_path / 'token'}")
    assert code == 0, printed
    assert "needs | SESAME" in printed
    assert "needs | ***" in printed
    assert project.run()[0] == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_the_build_and_leaves_nothing(project: Project, number: signal.Signals):
    project.write(Graph().step("long", "echo began; sleep 600"))
    with project.start() as process:
        read_until(process, "long  | began")
        process.send_signal(number)
        printed = rest(process)
        assert process.wait(60) == 128 + number
    assert "build #1 canceled" in printed
    assert project.vms() == []


def test_a_signal_while_the_first_vm_is_made_leaves_nothing(project: Project):
    project.write(Graph().step("only", "sleep 600"))  # a late signal finds it running
    folder = project.state / "sandbox" / "vms"
    with project.start() as process:
        until(lambda: folder.is_dir() and [*folder.iterdir()], "a VM is being made")
        process.send_signal(signal.SIGINT)
        printed = rest(process)
        assert "Traceback" not in printed
        assert process.wait(60) == 130, printed
    assert project.vms() == []


def test_a_state_of_a_newer_release_is_named_with_its_folder(project: Project):
    project.write(Graph().step("only", "true"))
    assert project.run("--step", "misspelt")[0] == 1  # makes the state
    with closing(sqlite3.connect(project.state / "ci-daemon.sqlite3")) as database:
        database.execute("PRAGMA user_version = 9999")
    code, printed = project.run()
    assert code == 1
    assert f"or remove its cached steps and logs, {project.state}\n" in printed


def test_a_second_signal_does_not_wait_for_the_command(project: Project):
    project.write(Graph().step("long", STUBBORN))
    with project.start() as process:
        read_until(process, "long  | began")
        process.send_signal(signal.SIGINT)
        read_until(process, "* canceling")
        process.send_signal(signal.SIGINT)
        assert "build #1" not in rest(process)
        assert process.wait(60) == 130
    assert project.vms() == []


def test_the_next_run_ends_what_a_killed_one_has_left(project: Project):
    project.write(Graph().step("long", "echo began; [ -e /workspace/quick ] || sleep 600"))
    with project.start() as process:
        read_until(process, "long  | began")
        process.kill()
    assert project.vms() != []
    (project.tree / "quick").touch()
    code, printed = project.run()
    assert code == 0, printed
    assert project.vms() == []


def test_a_second_run_of_a_project_waits_for_the_first(project: Project):
    project.write(Graph().step("long", "echo began; [ -e /workspace/quick ] || sleep 600"))
    with project.start() as first:
        read_until(first, "long  | began")
        (project.tree / "quick").touch()
        with project.start() as second:
            waits = read_until(second, "waiting for")
            assert waits == f"waiting for process {first.pid}, which runs this project\n"
            first.send_signal(signal.SIGINT)
            rest(first)
            assert "build #2 passed" in rest(second)
            assert second.wait(60) == 0


def test_watching_builds_again_when_a_file_changes(project: Project):
    word = project.tree / "word"
    word.write_text("one\n")
    project.write(Graph().step("show", "cat word; grep -q three word || sleep 600"))
    with project.start("--watch") as process:
        read_until(process, "show  | one")
        word.write_text("two\n")
        read_until(process, "build #1 canceled")
        read_until(process, "show  | two")
        word.write_text("three\n")
        read_until(process, "show  | three")
        read_until(process, "waiting for changes")
        process.send_signal(signal.SIGINT)
        rest(process)
        assert process.wait(60) == 130
    assert project.vms() == []


def test_a_host_that_lacks_a_program_is_told_as_by_the_doctor(project: Project, tmp_path: Path):
    project.write(Graph().step("only", "true"))
    project.images = tmp_path / "no-images"
    (tmp_path / "programs").mkdir()
    project.environ = {"PATH": str(tmp_path / "programs")}
    code, printed = project.run()
    assert code == 1
    assert "ci-daemon: this machine cannot run VMs yet" in printed
    assert "network: slirp4netns is not installed: it connects VMs to the network" in printed
    assert "mmdebstrap: mmdebstrap is not installed" in printed


@pytest.mark.parametrize("provider", ["sandbox", "qemu"])
def test_a_host_without_user_namespaces_is_told_the_remedy(project: Project, provider: str):
    """Machines need them, too: QEMU and the images have the ids of VMs, which only such a namespace gives."""
    project.write(Graph().step("only", "true"))
    project.environ = {"CI_DAEMON_POOL_PROVIDER": provider}
    project.within = ("unshare", "--user", "--map-root-user", "sh", "-c", _WITHOUT_NAMESPACES, "sh")
    code, printed = project.run()
    assert code == 1
    *_, reason = printed.splitlines()  # the one id of this test's own namespace is told before
    assert "ci-daemon: this machine cannot run VMs yet" in printed.splitlines()
    assert reason.startswith("namespaces: user.max_user_namespaces is 0: VMs need user namespaces: run `")
    assert "sysctl -w user.max_user_namespaces=" in reason
