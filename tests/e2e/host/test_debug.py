"""`ci-daemon debug` in VMs of failed and running jobs: across a crash, with a terminal and without."""

from __future__ import annotations

import os
import subprocess
import sys
import termios
from typing import TYPE_CHECKING, Any

import pytest

from ci_daemon.command import main
from tests.e2e.daemon import Build, Client, Daemon, Pipeline
from tests.e2e.pipelines import Graph, one
from tests.e2e.terminal import Terminal
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {"CI_DAEMON_POOL_PARKED": "0", "CI_DAEMON_POOL_MAX_VMS": "4"}


@pytest.fixture(autouse=True)
def _no_vm_is_left(daemon: Daemon) -> Iterator[None]:
    yield
    daemon.end_vms()


def name(build: Build) -> str:
    return f"{build.client.org}/{build.path.split('/')[1]}/{build.record()['number']}"


def fail(pipeline: Pipeline, ir: str) -> Build:
    build = pipeline.build(ir, debug=True, env={"COLOUR": 'it\'s "red"'})
    assert build.finish()["state"] == "failed"
    return build


def held(daemon: Daemon) -> list[Any]:
    return [lease for lease in daemon.json("lease", "list") if lease["state"] == "held"]


def gone(daemon: Daemon) -> None:
    """Wait until no VM is left."""
    vms = daemon.state / "sandbox" / "vms"
    until(lambda: not daemon.vms() and not list(vms.iterdir()), "the VMs' end")


def debits(client: Client) -> list[str]:
    entries = client.get(f"/api/v0/billing/transactions/{client.org}")["data"]
    return [entry["description"] for entry in entries if entry["source"] == "vm_lease_debit"]


def test_a_held_vm_survives_a_crash_and_is_charged_once(daemon: Daemon, pipeline: Pipeline, client: Client):
    client.request("PUT", "secrets/TOKEN", json={"value": "hunter2"})
    build = fail(pipeline, one("echo hello >made; exit 3", runner_args={"secrets": ["TOKEN"]}))
    named = name(build)
    (lease,) = held(daemon)
    assert lease["job_id"] == build.jobs()["only"]["id"]
    assert f"ci-daemon --state-dir {daemon.state} debug {named} only" in build.log()

    looked = daemon.command("debug", named, "--", "cat", "made")
    assert looked.stdout == "hello\n"
    assert f"{named} only failed and its VM is held until {lease['held_until']}, for 2.52 cents" in looked.stderr
    script = 'echo "$COLOUR $CI_STEP_KEY $PWD ${TOKEN-none}"; echo oh >&2; exit 7'
    other = daemon.command("debug", named, "only", "--", "sh", "-c", script, check=False)
    assert (other.returncode, other.stdout) == (7, 'it\'s "red" only /workspace none\n')
    assert other.stderr.endswith("oh\n")
    assert daemon.command("debug", named, "--", "ls", "/run/ci-daemon/debug").stdout == ""

    daemon.kill()
    assert daemon.command("debug", named, "--", "cat", "made").stdout == "hello\n"
    daemon.start()
    assert [each["id"] for each in held(daemon)] == [lease["id"]]
    assert daemon.json("drain", "--wait")["drained"]
    daemon.command("resume")
    refused = daemon.command("debug", named, check=False)
    assert (refused.returncode, "a shell needs a terminal" in refused.stderr) == (1, True)
    assert daemon.json("debug", named, "--release") == {"released": lease["id"]}
    gone(daemon)
    demo = build.path.split("/")[1]
    assert debits(client) == [f"{demo} #1 only, held", f"{demo} #1 only"]
    assert daemon.command("ledger", "verify").returncode == 0
    acts = [(entry["action"], entry["subject"]) for entry in daemon.json("audit", "--limit", "100")]
    assert acts.count(("openShell", f"{named}/only")) == 4
    assert acts[0] == ("releaseVm", f"{named}/only")


def test_a_pipe_is_read_to_its_end_whatever_its_size(daemon: Daemon, pipeline: Pipeline):
    build = fail(pipeline, one("exit 1"))
    sent = os.urandom(8 << 20)
    command = (sys.executable, "-m", "ci_daemon", "--state-dir", str(daemon.state), "debug", name(build), "--", "cat")
    done = subprocess.run(command, input=sent, capture_output=True, check=True, timeout=60, env=daemon.environ)
    assert done.stdout == sent
    assert daemon.json("lease", "kill", held(daemon)[0]["id"])
    gone(daemon)
    assert debits(pipeline.client)[0].endswith(", held")


def test_a_shell_has_a_terminal_of_its_size_and_gives_it_back(daemon: Daemon, pipeline: Pipeline):
    build = fail(pipeline, Graph().step("bad", "exit 1").step("slow", "true", after=("bad",)).ir())
    terminal = Terminal(daemon, name(build), "bad")
    try:
        terminal.shows("# ")
        terminal.type("echo at-$(tty)-$TERM; stty size\r")
        terminal.shows("at-/dev/pts/")
        terminal.shows("-xterm")
        terminal.shows("40 100")
        terminal.resize(50, 120)
        until(lambda: terminal.answers("stty size\r", "50 120"), "the other size")
        # A program of its own says that it runs: a Ctrl-C before bash has waited for a child is lost in bash itself.
        terminal.type("sh -c 'echo begun-$((40 + 2)); exec sleep 600'\r")
        terminal.shows("begun-42")
        terminal.type("\x03")
        terminal.type("cd; exit 5\r")
        assert terminal.process.wait(30) == 5
        assert termios.tcgetattr(terminal.theirs) == terminal.before
    finally:
        terminal.close()
    daemon.command("debug", name(build), "bad", "--release")
    gone(daemon)


def test_debug_enters_running_jobs_and_asks_for_the_job(
    daemon: Daemon, pipeline: Pipeline, capsys: pytest.CaptureFixture[str]
):
    graph = Graph().step("one", "touch begun; echo begun; sleep 600").step("two", "echo begun; sleep 600")
    build = pipeline.build(graph.step("late", "true", after=("two",)).ir())
    for step in ("one", "two"):
        build.says("begun", step)
    found = daemon.command("debug", name(build), "one", "--", "ls")
    assert found.stdout == "begun\n"
    assert "is running: its VM is destroyed when the job ends" in found.stderr
    for arguments, message in (
        (("--", "ls"), "give a STEP: these jobs have a VM: one (running), two (running)"),
        (("late", "--", "ls"), 'the step "late" has no VM: its job is pending'),
        (("nobody", "--", "ls"), 'the build has no step "nobody"; these jobs have a VM: one'),
        (("one", "--release"), "is not held: the job is running"),
        (("one", "--release", "--", "ls"), "give either a command or --release"),
    ):
        assert main(["--state-dir", str(daemon.state), "debug", name(build), *arguments]) != 0
        assert message in capsys.readouterr().err
    build.cancel()
    build.finish()
    assert main(["--state-dir", str(daemon.state), "debug", name(build), "--", "ls"]) == 1
    assert "no job of this build has a VM: the build is canceled" in capsys.readouterr().err
    assert main(["--state-dir", str(daemon.state), "debug", name(build), "one", "--", "ls"]) == 1
    assert 'the step "one" has no VM: its job is canceled. The VM of a failed job is held' in capsys.readouterr().err
    gone(daemon)


def test_what_is_held_of_a_pipeline_goes_with_it(daemon: Daemon, pipeline: Pipeline, client: Client):
    fail(pipeline, one("exit 1"))
    assert held(daemon)
    assert client.request("DELETE", f"pipelines/{pipeline.slug}").status_code == 204
    gone(daemon)
    assert len(debits(client)) == 2
