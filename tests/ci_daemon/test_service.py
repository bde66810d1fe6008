from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

TIMEOUT_SECONDS = 30.0


@dataclass
class Daemon:
    """`ci-daemon serve` as a service manager starts it, and the manager's end of its socket."""

    process: subprocess.Popen[bytes]
    manager: socket.socket
    url: str
    log: Path

    def notified(self) -> list[str]:
        return self.manager.recv(4096).decode().splitlines()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(TIMEOUT_SECONDS)


def command(state: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "ci_daemon", "--state-dir", str(state), *arguments]


def call(state: Path, *arguments: str, code: int = 0) -> Any:
    done = subprocess.run(command(state, "--json", *arguments), capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    call(tmp_path / "state", "init")
    return tmp_path / "state"


@contextmanager
def served(state: Path, *options: str, **environ: str) -> Iterator[Daemon]:
    address = state.parent / "manager"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(TIMEOUT_SECONDS)
        manager.bind(str(address))
        log = state.parent / "log"
        with log.open("a") as stderr:
            process = subprocess.Popen(
                command(state, "serve", "--listen", "127.0.0.1:0", *options),
                env={**os.environ, "CI_DAEMON_POOL_PARKED": "0", "NOTIFY_SOCKET": str(address), **environ},
                stderr=stderr,
            )
        try:
            daemon = Daemon(process, manager, "", log)
            ready, status = daemon.notified()
            assert ready == "READY=1"
            daemon.url = status.removeprefix("STATUS=serving on ")
            yield daemon
        finally:
            process.kill()
            process.wait()
    address.unlink()


def test_it_notifies_ready_and_stopping_and_stops_in_seconds(state: Path):
    with served(state) as daemon:
        assert httpx.get(f"{daemon.url}/healthz").text == "ok"
        assert daemon.stop() == 0
        assert daemon.notified() == ["STOPPING=1", "STATUS=draining"]


def test_ctrl_c_is_an_orderly_stop_too(state: Path):
    with served(state) as daemon:
        daemon.process.send_signal(signal.SIGINT)
        assert daemon.process.wait(TIMEOUT_SECONDS) == 0


def test_an_open_connection_does_not_hold_up_the_stop(state: Path):
    with served(state) as daemon, httpx.Client(base_url=daemon.url) as client:
        assert client.get("/healthz").status_code == 200
        assert daemon.stop() == 0


def test_the_owners_commands_work_beside_it_and_status_knows_it(state: Path):
    with served(state) as daemon:
        user = call(state, "user", "add", "ada@example.org", "--name", "Ada")
        answer = httpx.get(f"{daemon.url}/api/v0/user", headers={"Authorization": f"Bearer {user['token']}"})
        assert answer.json()["uuid"] == user["uuid"]
        status = call(state, "status")
        assert (status["pid"], status["url"]) == (daemon.process.pid, daemon.url)
        assert (status["answers"], status["draining"], status["watchdog_seconds"]) == (True, False, None)
        daemon.stop()
    assert call(state, "status", code=3)["pid"] is None


def test_a_second_service_on_the_same_state_is_refused(state: Path):
    with served(state) as daemon:
        second = subprocess.run(
            command(state, "serve", "--listen", "127.0.0.1:0"), capture_output=True, text=True, check=False
        )
        assert second.returncode == 1
        assert f"process {daemon.process.pid} serves {state} already" in second.stderr
        assert httpx.get(f"{daemon.url}/healthz").text == "ok"


def test_after_kill_9_the_next_one_starts(state: Path):
    with served(state) as daemon:
        daemon.process.kill()
        daemon.process.wait()
    with served(state) as daemon:
        assert httpx.get(f"{daemon.url}/healthz").text == "ok"


def test_an_address_in_use_is_reported(state: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        done = subprocess.run(command(state, "serve", "--listen", listen), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert (
        done.stderr == f"ci-daemon: cannot listen on {listen}: Address already in use; stop the program that listens"
        " there, or change http.listen\n"
    )


def test_a_missing_state_directory_names_the_command_to_run(tmp_path: Path):
    state = tmp_path / "none"
    done = subprocess.run(command(state, "serve"), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"ci-daemon: {state} is not initialized: run `ci-daemon --state-dir {state} init`\n"


def test_the_watchdog_is_answered_in_half_its_time(state: Path):
    with served(state, WATCHDOG_USEC="1000000") as daemon:
        assert daemon.notified() == ["WATCHDOG=1"]
        assert call(state, "status")["watchdog_seconds"] == 1
        assert daemon.notified() == ["WATCHDOG=1"]


def test_with_nothing_to_wait_for_waiting_is_leaving(state: Path):
    with served(state, "--wait") as daemon:
        assert daemon.stop() == 0


def test_its_log_names_the_request_on_every_line(state: Path):
    name = "a-request-of-twenty-characters"
    with served(state) as daemon:
        httpx.post(f"{daemon.url}/api/v0/organizations", headers={"X-Request-Id": name})
        daemon.stop()
        log = daemon.log.read_text()
    assert f"request_id={name}" in log
    assert all(" info " in line or " warning " in line for line in log.splitlines())


def test_its_log_is_empty_if_only_errors_are_wanted(state: Path):
    with served(state, "--quiet") as daemon:
        daemon.stop()
        assert daemon.log.read_text() == ""


@pytest.fixture
def running_job(
    state: Path, images_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Daemon, int], None]]:
    """Start a build whose one job prints a line and runs for some seconds more; return after the line."""
    monkeypatch.setenv("CI_DAEMON_IMAGES_DIR", str(images_dir))

    def start(daemon: Daemon, seconds: int) -> None:
        user = call(state, "user", "add", "ada@example.org", "--name", "Ada")
        call(state, "ledger", "grant", str(user["personal_org_slug"]), "100")
        with httpx.Client(headers={"Authorization": f"Bearer {user['token']}"}, timeout=TIMEOUT_SECONDS * 2) as client:
            pipelines = f"{daemon.url}/api/v0/organizations/{user['personal_org_slug']}/pipelines"
            client.post(pipelines, json={"name": "demo", "repository": "demo", "default_branch": "main"})
            step = {"type": "command", "key": "only", "label": "only", "cmd": f"echo begins; sleep {seconds}"}
            ir = json.dumps({"version": "0", "steps": [step]})
            body = {"branch": "main", "commit": "c0ffee", "pipeline_ir": ir}
            assert client.post(f"{pipelines}/demo/builds", json=body).status_code == 201
            build = f"{pipelines}/demo/builds/1"
            [job] = client.get(f"{build}/jobs").json()["data"]
            answer = client.get(f"{build}/jobs/{job['id']}/log", params={"wait": 30}, headers={"Range": "bytes=0-"})
            assert answer.text == "begins\n"

    yield start
    call(state, "lease", "kill", "--all")


def test_with_wait_it_stops_when_the_running_job_has_ended(state: Path, running_job: Callable[[Daemon, int], None]):
    with served(state, "--wait") as daemon:
        running_job(daemon, 2)
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.notified()[0] == "STOPPING=1"
        assert daemon.notified() == ["STATUS=draining: 1 VM in use"]
        assert httpx.get(f"{daemon.url}/healthz").status_code == 503
        assert daemon.process.wait(TIMEOUT_SECONDS) == 0
    status = call(state, "status", code=3)
    assert (status["builds"], status["leases"]) == ({}, {})


def test_a_second_signal_ends_the_wait_but_not_the_job(state: Path, running_job: Callable[[Daemon, int], None]):
    with served(state, "--wait") as daemon:
        running_job(daemon, 600)
        assert [lease["job"] for lease in call(state, "lease", "list")] == ["only"]
        assert call(state, "status")["builds"] == {"running": 1}
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.notified()[0] == "STOPPING=1"
        assert daemon.notified() == ["STATUS=draining: 1 VM in use"]
        assert daemon.stop() == 0
    assert call(state, "status", code=3)["leases"] == {"active": 1}
