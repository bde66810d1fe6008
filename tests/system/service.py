"""The service on a machine, and a build on it, used from a shell there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from tests.e2e.daemon import FINAL
from tests.e2e.pipelines import one
from tests.waiting import until

if TYPE_CHECKING:
    from tests.system.machine import Machine

_UNITS = "/etc/systemd/system"


def let_make_groups(machine: Machine) -> None:
    """Let the service's user make groups of version 1, which has the controllers in these machines."""
    machine.run("useradd --system --home-dir /var/lib/ci-daemon --shell /usr/sbin/nologin ci-daemon")
    machine.write(f"{_UNITS}/groups.service", "[Service]\nType=oneshot\nExecStart=sh -c 'chown ci-daemon /cgroup/*'\n")
    for unit in ("ci-daemon", "ci-daemon-vms"):
        machine.write(
            f"{_UNITS}/{unit}.service.d/tests.conf",
            "[Unit]\nRequires=groups.service\nAfter=groups.service\n[Service]\nReadWritePaths=/cgroup\n",
        )


@dataclass
class Build:
    """A build of one job on a machine's service."""

    service: Service
    number: int
    uuid: str

    @property
    def name(self) -> str:
        return f"{self.service.org}/demo/{self.number}"

    def job(self) -> dict[str, Any]:
        found: dict[str, Any] = self.service.ask("GET", f"pipelines/demo/builds/{self.number}/jobs")["data"][0]
        return found

    def state(self) -> str:
        return str(self.service.ask("GET", f"pipelines/demo/builds/{self.number}")["state"])

    def log(self) -> list[str]:
        return self.service.curl("GET", f"pipelines/demo/builds/{self.number}/jobs/{self.job()['id']}/log").splitlines()

    def says(self, line: str, seconds: float = 120) -> None:
        until(lambda: line in self.log() or self.state() in FINAL, f'"{line}" in the log of {self.name}', seconds)
        assert line in self.log(), self.job()

    def passes(self, seconds: float = 180) -> None:
        until(lambda: self.state() in FINAL, f"the end of {self.name}", seconds)
        assert self.state() == "passed", (self.log(), self.job())


@dataclass
class Service:
    """The installed service, used from a shell of the machine."""

    machine: Machine
    url: str
    token: str
    org: str

    @classmethod
    def installed_on(cls, machine: Machine) -> Self:
        """Install this checkout on a machine, with a pipeline ``demo`` of its owner."""
        machine.put_checkout("/srv/ci-daemon")
        done = machine.run("/srv/ci-daemon/install.sh --owner ada@example.org --json", seconds=900)
        document = json.loads(done.stdout)
        service = cls(machine, document["url"], document["owner"]["token"], document["owner"]["organization"])
        pipeline = {"name": "demo", "repository": "https://example.org/demo.git", "default_branch": "main"}
        service.ask("POST", "pipelines", pipeline)
        return service

    def curl(self, method: str, path: str, body: object = None) -> str:
        sent = "" if body is None else "-H 'Content-Type: application/json' -d @-"
        command = f"curl -sSf -X {method} -H 'Authorization: Bearer {self.token}' {sent}"
        done = self.machine.run(f"{command} {self.url}/api/v0/organizations/{self.org}/{path}", stdin=json.dumps(body))
        return done.stdout

    def ask(self, method: str, path: str, body: object = None) -> Any:
        return json.loads(self.curl(method, path, body))

    def build(self, command: str) -> Build:
        body = {"branch": "main", "commit": "none", "pipeline_ir": one(command)}
        made = self.ask("POST", "pipelines/demo/builds", body)
        return Build(self, made["number"], made["id"])

    def property(self, name: str, unit: str = "ci-daemon") -> str:
        return self.machine.run(f"systemctl show --value --property {name} {unit}").stdout.strip()

    def answers(self) -> bool:
        return self.machine.run(f"curl -sf {self.url}/healthz", check=False).stdout == "ok"
