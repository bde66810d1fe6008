"""A real daemon as its owner sees it on the host: status, top, queue, and jobs' logs."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from tests.e2e.daemon import Build, Client, Daemon
from tests.e2e.pipelines import Graph, one
from tests.processes import ended
from tests.waiting import until


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {"CI_DAEMON_POOL_PARKED": "0", "CI_DAEMON_POOL_MAX_VMS": "1"}


@pytest.fixture
def running(client: Client) -> Iterator[Build]:
    """A build that occupies the host's only VM."""
    build = client.pipeline("first").build(one("echo hello; echo world; sleep 600"))
    build.says("world")
    yield build
    build.cancel()
    build.finish()


def test_running_and_waiting_jobs_are_shown_as_by_the_api(daemon: Daemon, client: Client, running: Build):
    graph = Graph().step("a", "true").step("b", "true")
    waiting = client.pipeline("second").build(graph.ir())
    other = Client.create(daemon, f"other-{client.email}")
    urgent = other.pipeline("urgent").build(one("true"))
    until(lambda: urgent.jobs()["only"]["pending_reason"], "the pool's look at the queue")

    queue = daemon.json("queue")
    name = f"{client.org}/second/1"
    # The other organization has used nothing lately, so its job comes first, though it was queued last.
    assert [(each["position"], each["build"], each["step"]) for each in queue] == [
        (1, f"{other.org}/urgent/1", "only"),
        (2, name, "a"),
        (3, name, "b"),
    ]
    assert {each["reason"] for each in queue} == {waiting.jobs()["a"]["pending_reason"]}
    assert queue[0]["reason"] == urgent.jobs()["only"]["pending_reason"] == "waiting for a VM: host is full (1 of 1)"
    assert [each["position"] for each in daemon.json("queue", "--limit", "2")] == [1, 2]

    status = daemon.json("status")
    assert (status["answers"], status["draining"], status["queued_jobs"]) == (True, False, 3)
    assert (status["vms"], status["max_vms"]) == ({"running": 1}, 1)
    assert status["next_job_reason"] == "waiting for a VM: host is full (1 of 1)"
    screen = daemon.command("status").stdout
    assert f"runs as process {status['pid']} on {daemon.url} for " in screen
    assert "VMs      1 running; jobs may have 1\n" in screen
    assert ": waiting for a VM: host is full (1 of 1)\n" in screen

    top = daemon.json("top", "--once")
    [work] = top["work"]
    assert (work["build"], work["step"], work["state"]) == (f"{client.org}/first/1", "only", "running")
    assert work["log_bytes"] == len("hello\nworld\n")
    assert [each["build"] for each in top["queue"]] == [each["build"] for each in queue]
    shown = daemon.command("top", "--once").stdout
    assert "VMs in use: 1, jobs waiting: 3\n" in shown
    [line] = [line for line in shown.splitlines() if f"{client.org}/first/1" in line]
    assert line.endswith(f"12 B  {work['vm'][:8]}")
    waiting.cancel()
    urgent.cancel()


def test_top_on_a_terminal_runs_until_q(daemon: Daemon, running: Build):
    keyboard, screen = pty.openpty()
    command = [sys.executable, "-m", "ci_daemon", "--state-dir", str(daemon.state), "top"]
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "200", "LINES": "30"}
    shown = b""

    def both_pictures() -> bool:
        nonlocal shown
        shown += os.read(keyboard, 65536)
        return shown.count(b"VMs in use") > 1

    def press_q(_: subprocess.Popen[bytes]) -> None:
        os.write(keyboard, b"q")

    def interrupt(top: subprocess.Popen[bytes]) -> None:
        top.send_signal(signal.SIGINT)

    for end in (press_q, interrupt):
        shown = b""
        with ended(subprocess.Popen(command, env=environ, stdin=screen, stdout=screen, stderr=screen)) as top:
            until(both_pictures, "two pictures")
            end(top)
            drain = threading.Thread(target=lambda: os.read(keyboard, 65536), daemon=True)
            drain.start()
            assert top.wait(30) == 0
    os.close(screen)
    os.close(keyboard)


def test_the_logs_of_a_build_are_shown_and_followed_to_its_end(daemon: Daemon, client: Client):
    go = "until [ -e /tmp/go ]; do sleep 0.1; done"
    build = client.pipeline("logged").build(one(f"echo hello; (sleep 2; touch /tmp/go) & {go}; printf 'no newline'"))
    name = f"{client.org}/logged/1"
    build.says("hello")
    followed = daemon.command("build", "logs", name, "--follow")
    assert followed.stdout.splitlines() == ["only  | hello", "only  | no newline"]
    build.finish()
    assert daemon.command("build", "logs", name, "only").stdout == followed.stdout
    [document] = json.loads(daemon.command("build", "logs", name, "--json").stdout)
    assert (document["key"], document["state"], document["log"]) == ("only", "passed", "hello\nno newline")
    refused = daemon.command("build", "logs", name, "onyl", check=False)
    assert f"has no step onyl: `ci-daemon build show {name}` shows all" in refused.stderr
