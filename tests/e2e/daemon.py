"""A real daemon as a process, and a client of its API, for the end-to-end tests."""

from __future__ import annotations

import base64
import json
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import httpx
import pytest

from ci_daemon.command import main
from storage import Storage, SystemClock
from tests.e2e.add_user import add_user
from tests.forked import Forked
from tests.state import run_sql
from tests.waiting import until

FINAL = {"passed", "failed", "canceled"}
_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # to load certificates for each request would take 25 ms of CPU


class Daemon:
    """`ci-daemon serve` on a free port of the loopback, configured by environment variables."""

    def __init__(
        self, state: Path, settings: Mapping[str, str], prefix: tuple[str, ...] = (), log: Path | None = None
    ) -> None:
        self.state = state
        self.url = ""
        self._prefix = prefix
        alone = {"CI_DAEMON_IMAGES_ON_DEMAND": "false"}  # no test reaches a public registry
        own = {"CI_DAEMON_HTTP_LISTEN": "127.0.0.1:0", "XDG_CACHE_HOME": str(state.with_name("cache")), **alone}
        self.environ = {**os.environ, **own, **settings}
        self._process: subprocess.Popen[bytes] | Forked | None = None
        self._already = 0
        self._log = log or state.with_name(f"{state.name}.log")

    def command(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command of the host's owner; return its output and exit code."""
        return self.run("ci_daemon", "--state-dir", str(self.state), *arguments, check=check)

    def run(self, program: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a Python module where the daemon runs; return its output and exit code."""
        with TemporaryFile() as stdout, TemporaryFile() as stderr:
            process = self._begin(program, arguments, self.environ, stdout, stderr)
            try:
                code = process.wait(120)
            finally:
                process.kill()
            stdout.seek(0)
            stderr.seek(0)
            printed, said = stdout.read().decode(), stderr.read().decode()
        if check and code != 0:
            raise AssertionError(f"{arguments} ended with {code}: {printed}{said}")
        return subprocess.CompletedProcess(arguments, code, printed, said)

    def add_user(self, email: str, cents: int) -> dict[str, str]:
        """Add a user on the host; return the organization's slug and an API key."""
        if not self._prefix:
            return add_user(self.state, email, cents)
        added: dict[str, str] = json.loads(self.run("tests.e2e.add_user", str(self.state), email, str(cents)).stdout)
        return added

    def json(self, *arguments: str) -> Any:
        """Run a command of the host's owner with ``--json``; return its document."""
        return json.loads(self.command(*arguments, "--json").stdout)

    def vms(self) -> list[str]:
        """Return the ids of the VMs that have a lease. `lease list` takes half a second of the CPU."""
        return [vm for (vm,) in run_sql(self.state, "SELECT uuid FROM leases WHERE state <> 'ended'")]

    def wait_until_idle(self) -> None:
        """Wait until no VM is left."""
        until(lambda: self.vms() == [], "the end of all VMs")

    def end_vms(self) -> None:
        """End all VMs, as `lease kill --all` does.

        It runs in this process, which has what a command must import first.
        """
        command = ("--state-dir", str(self.state), "lease", "kill", "--all")
        if self._prefix:
            self.run("ci_daemon", *command)
            return
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environ.items():
                patch.setenv(name, value)
            assert main(command) == 0

    def start(self, program: str = "ci_daemon", **environ: str) -> None:
        """Start it, or a program in its place, and wait until it answers."""
        self.spawn(program, **environ)
        self.url = until(self._address_of_running, f"the daemon's address in {self._log}")

    def spawn(self, program: str = "ci_daemon", **environ: str) -> None:
        """Start it, or a program in its place, without waiting."""
        self._already = self._log.stat().st_size if self._log.exists() else 0
        command = ("--state-dir", str(self.state), "serve")
        with self._log.open("ab") as log:
            self._process = self._begin(program, command, {**self.environ, **environ}, log, log)

    @property
    def running(self) -> bool:
        """True if it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(60)
            self._process = None

    def stop(self) -> int:
        """Stop it as systemd does, and return its exit code."""
        if self._process is None:
            return 0
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(60)
        self._process = None
        return code

    @property
    def pid(self) -> int:
        """The id of its process, which must have been started."""
        assert self._process is not None
        return self._process.pid

    @property
    def limits(self) -> list[str]:
        """The kernel's limits for the process, one line for each resource."""
        return Path(f"/proc/{self.pid}/limits").read_text().splitlines()

    @property
    def log(self) -> str:
        """Its output so far."""
        return self._log.read_text()

    def announced(self) -> str | None:
        """Return the URL that it has printed since its start; None if it has not yet."""
        for line in self._log.read_bytes()[self._already :].decode(errors="replace").splitlines():
            if "http://" in line:
                return "http://" + line.partition("http://")[2].split()[0].rstrip("/.,")
        return None

    def _begin(
        self, module: str, arguments: Sequence[str], environ: Mapping[str, str], stdout: IO[bytes], stderr: IO[bytes]
    ) -> subprocess.Popen[bytes] | Forked:
        command = (*self._prefix, sys.executable, "-m", module, *arguments)
        return subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr)

    def _address_of_running(self) -> str | None:
        if self._process is not None and self._process.poll() is not None:
            raise AssertionError(f"the daemon ended with {self._process.returncode}: {self.log}")
        return self.announced()


class ForkedDaemon(Daemon):
    """One that starts in a third of the time, as do its commands, because they are forked."""

    def _begin(
        self, module: str, arguments: Sequence[str], environ: Mapping[str, str], stdout: IO[bytes], stderr: IO[bytes]
    ) -> Forked:
        return Forked(module, arguments, environ, stdout, stderr)


@dataclass
class Client:
    """A user with an API key."""

    daemon: Daemon
    email: str
    org: str
    token: str

    @classmethod
    def create(cls, daemon: Daemon, email: str, cents: int = 100_000) -> Client:
        """Add a user on the host, and give its organization money."""
        added = daemon.add_user(email, cents)
        return cls(daemon, email, added["org"], added["token"])

    def session(self) -> str:
        """Begin a session of the user, as a sign-in does; return its token."""
        with closing(Storage.open(self.daemon.state, SystemClock())) as storage:
            user = storage.users.by_email(self.email)
            assert user is not None
            return storage.tokens.create_session(user.id, "tests")[1]

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request with the user's key; a path without a leading slash is below the organization."""
        url = self.daemon.url + (path if path.startswith("/") else f"/api/v0/organizations/{self.org}/{path}")
        headers = {"Authorization": f"Bearer {self.token}", **options.pop("headers", {})}
        return httpx.request(method, url, headers=headers, verify=_NO_TLS, **{"timeout": 60} | options)

    def get(self, path: str, **options: Any) -> Any:
        """Read a resource."""
        response = self.request("GET", path, **options)
        assert response.status_code == 200, response.text
        return response.json()

    def pipeline(self, name: str = "demo") -> Pipeline:
        """Create a pipeline."""
        body = {"name": name, "repository": "https://example.org/acme/demo.git", "default_branch": "main"}
        response = self.request("POST", "pipelines", json=body)
        assert response.status_code == 201, response.text
        return Pipeline(self, response.json()["slug"])


@dataclass
class Pipeline:
    """A pipeline, and requests about it."""

    client: Client
    slug: str

    def build(self, ir: str, *, source: bytes | None = None, **fields: Any) -> Build:
        """Post a build."""
        body = {"branch": "main", "commit": "0" * 40, "pipeline_ir": ir, **fields}
        if source is not None:
            body["source_b64"] = base64.b64encode(source).decode()
        response = self.client.request("POST", f"pipelines/{self.slug}/builds", json=body)
        assert response.status_code == 201, response.text
        return Build(self.client, f"pipelines/{self.slug}/builds/{response.json()['number']}")


@dataclass
class Build:
    """A build, and requests about it."""

    client: Client
    path: str

    def record(self) -> Any:
        """Return its record."""
        return self.client.get(self.path)

    def finish(self, seconds: float = 60.0) -> Any:
        """Wait for its end and return its record."""

        def look() -> Any:
            record = self.record()
            return record if record["state"] in FINAL else None

        return until(look, f"the end of {self.path}", seconds)

    def jobs(self) -> dict[str, Any]:
        """Return its jobs by step key."""
        return {job["step_key"]: job for job in self.client.get(f"{self.path}/jobs")["data"]}

    def states(self) -> dict[str, str]:
        """Return its jobs' states by step key."""
        return {key: job["state"] for key, job in self.jobs().items()}

    def job(self, key: str, state: str, seconds: float = 60.0) -> Any:
        """Wait until a job is in a state and return its record."""

        def look() -> Any:
            job = self.jobs()[key]
            return job if job["state"] == state else None

        return until(look, f'job "{key}" in state {state}', seconds)

    def log(self, key: str = "only") -> str:
        """Return a job's log as it is now."""
        response = self.client.request("GET", f"{self.path}/jobs/{self.jobs()[key]['id']}/log")
        assert response.status_code == 200, response.text
        return response.text

    def says(self, text: str, key: str = "only", seconds: float = 30.0) -> None:
        """Wait until a job's log holds a text."""
        until(lambda: text in self.log(key), f'"{text}" in the log of "{key}"', seconds)

    def cancel(self) -> Any:
        """Cancel it; return the record of the answer."""
        response = self.client.request("PUT", f"{self.path}/cancel")
        assert response.status_code == 200, response.text
        return response.json()
