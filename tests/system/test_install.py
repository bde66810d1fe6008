"""The service on a whole machine: installed, upgraded, rolled back and uninstalled.

Each test continues where the one before ended.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from tests.authenticator import Authenticator
from tests.e2e.pipelines import one
from tests.system.machine import Machine
from tests.waiting import until

OLDER, NEWER = "/srv/older", "/srv/newer"
TICKS = 45
SLOW = one(f"for tick in $(seq {TICKS}); do echo tick $tick; sleep 1; done")


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with Machine() as made:
        made.put_checkout(OLDER, "HEAD~1")
        made.put_checkout(NEWER)
        made.run(f"""sed -i 's/^fallback_version = .*/fallback_version = "99.0"/' {NEWER}/pyproject.toml""")
        made.run("useradd --create-home carl")
        made.write(f"{NEWER}/storage/migrations/9999_later.sql", "CREATE TABLE later (id INTEGER PRIMARY KEY) STRICT;")
        yield made


@pytest.fixture(scope="module")
def installed(machine: Machine) -> dict[str, Any]:
    """The answer of the first installation, run with a hostile umask and environment."""
    done = machine.run(
        f"umask 077; cd /root; HOME=/nowhere PIP_USER=1 PYTHONPATH=/nowhere {OLDER}/install.sh"
        " --owner ada@example.org --json",
        seconds=900,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def as_carl(machine: Machine, installed: dict[str, Any], command: str) -> str:
    """Run a shell command as an ordinary user of the machine, with the owner's API key."""
    access = f"CI_DAEMON_URL={installed['url']} CI_DAEMON_TOKEN={installed['owner']['token']}"
    return machine.run(f"su carl -c {shlex.quote(f'cd; export {access}; {command}')}").stdout


def run_json(machine: Machine, command: str) -> Any:
    return json.loads(machine.run(f"ci-daemon --json {command}").stdout)


def main_pid(machine: Machine) -> str:
    return machine.run("systemctl show --value --property MainPID ci-daemon").stdout.strip()


def releases(machine: Machine) -> list[str]:
    return machine.run("ls /opt/ci-daemon/releases").stdout.split()


def test_a_dry_run_changes_nothing(machine: Machine):
    would = json.loads(machine.run(f"{OLDER}/install.sh --dry-run --json").stdout)["would"]
    assert would[0].endswith(f" {OLDER}")
    assert machine.run("ls -d /opt/ci-daemon /etc/ci-daemon /var/lib/ci-daemon; id ci-daemon", check=False).stdout == ""


def test_it_installs_and_serves(machine: Machine, installed: dict[str, Any]):
    assert {step["name"] for step in installed["steps"] if step["did"]} >= {"user", "configuration", "image", "service"}
    assert machine.run("systemctl is-enabled ci-daemon; systemctl is-active ci-daemon").stdout.split() == [
        "enabled",
        "active",
    ]
    assert machine.run("stat -c '%U %G %a' /var/lib/ci-daemon /etc/ci-daemon/ci-daemon.toml").stdout.splitlines() == [
        "ci-daemon ci-daemon 700",
        "root ci-daemon 640",
    ]
    assert installed["owner"]["token"] not in machine.run("grep -r ci_ /opt/ci-daemon/releases/*/origin; true").stdout
    assert run_json(machine, "org list")[0]["balance_cents"] == 1000
    assert not machine.run("find /var/lib/ci-daemon -user root; find /opt -user ci-daemon").stdout


def test_the_owner_signs_in_once_by_the_printed_link(machine: Machine, installed: dict[str, Any]):
    url, _, token = installed["owner"]["link"].partition("/login/recover#")
    link = {"magic_link_token": token}
    begun = _post(machine, f"{url}/api/v0/auth/recover/options", link)
    authenticator = Authenticator(origin=url.replace("127.0.0.1", "localhost"), rp_id="localhost")
    answer = {"challenge_id": begun["challenge_id"], "attestation": authenticator.create(begun["options"])}
    made = _post(machine, f"{url}/api/v0/auth/recover/finalize", {**link, **answer})
    assert made["user"]["email"] == "ada@example.org"
    session = machine.run(f"curl -sSf -H 'Authorization: Bearer {made['token']}' {url}/api/v0/user").stdout
    assert json.loads(session)["personal_org_slug"] == installed["owner"]["organization"]
    assert _post(machine, f"{url}/api/v0/auth/recover/options", link)["error"]["code"] == "passkey_token_invalid"
    assert token not in machine.journal("--unit", "ci-daemon")


def test_an_ordinary_user_builds(machine: Machine, installed: dict[str, Any]):
    as_carl(machine, installed, f"cp -r {OLDER}/examples/hello hello")
    assert "build #1 passed" in as_carl(machine, installed, "ci-daemon submit hello")
    refused = machine.run("su carl -c 'ci-daemon org list; ci-daemon install'", check=False)
    assert "on the box give --state-dir DIR or run this with sudo" in refused.stderr
    assert "this needs root: run `sudo ci-daemon install" in refused.stderr


def test_a_second_time_nothing_changes(machine: Machine, installed: dict[str, Any]):
    before = main_pid(machine), releases(machine)
    again = json.loads(machine.run("ci-daemon install --json", seconds=900).stdout)
    assert [step for step in again["steps"] if step["did"]] == []
    assert (again["owner"], again["release"], again["url"]) == (None, installed["release"], installed["url"])
    assert (main_pid(machine), releases(machine)) == before


def test_a_wrong_configuration_is_reported_before_anything_stops(machine: Machine):
    before = main_pid(machine)
    machine.run("sed -i 's/^#parked = .*/parkd = 1/' /etc/ci-daemon/ci-daemon.toml")
    refused = machine.run(f"{NEWER}/install.sh", check=False)
    machine.run("sed -i 's/^parkd = 1/parked = 1/' /etc/ci-daemon/ci-daemon.toml")
    assert "pool.parkd is not a setting: did you mean pool.parked?" in refused.stderr
    assert main_pid(machine) == before


def test_a_new_release_takes_over_while_a_job_runs(machine: Machine, installed: dict[str, Any]):
    machine.write("/etc/systemd/system/ci-daemon.service.d/own.conf", "[Service]\nNice=3\n")
    machine.write("/srv/slow.json", SLOW)
    org = installed["owner"]["organization"]
    path = f"{installed['url']}/api/v0/organizations/{org}/pipelines/hello/builds"
    body = json.dumps({"branch": "main", "commit": "none", "pipeline_ir": SLOW})
    machine.write("/srv/body.json", body)
    as_carl(
        machine,
        installed,
        f'curl -sf -H "Authorization: Bearer $CI_DAEMON_TOKEN" -H "Content-Type: application/json" {path}'
        " -d @/srv/body.json",
    )
    job = until(lambda: _running(machine, f"{org}/hello/2"), "the job's start", 60)

    upgraded = json.loads(machine.run(f"{NEWER}/install.sh --json", seconds=900).stdout)
    assert upgraded["version"] == "99.0"
    assert machine.run("ci-daemon --version").stdout.strip().endswith("99.0")
    assert machine.run("systemctl show --value --property Nice ci-daemon").stdout.strip() == "3"
    assert machine.run("grep '^parked' /etc/ci-daemon/ci-daemon.toml").stdout == "parked = 1\n"
    assert releases(machine) == [installed["release"], upgraded["release"]]

    until(lambda: _state(machine, f"{org}/hello/2") == "passed", "the job's end", TICKS + 60)
    log = machine.run(f"ci-daemon build logs {org}/hello/2").stdout
    assert re.findall(r"tick (\d+)", log) == [str(number + 1) for number in range(TICKS)]
    assert _jobs(machine, f"{org}/hello/2")[0]["attempt"] == job["attempt"]


def test_a_release_that_does_not_start_gives_way_by_itself(machine: Machine):
    before = releases(machine)
    machine.run(f"cp -r {NEWER} /srv/broken; sed -i 's/^def serve(/def serf(/' /srv/broken/ci_daemon/service.py")
    failed = machine.run("/srv/broken/install.sh", check=False, seconds=900)
    assert failed.returncode == 1
    assert "does not run: the service does not start; the end of its log is:" in failed.stderr
    assert failed.stderr.strip().endswith("runs again, with its database")
    assert machine.run("systemctl is-active ci-daemon; readlink /opt/ci-daemon/current").stdout.split() == [
        "active",
        f"releases/{before[-1]}",
    ]


def test_a_rollback_names_the_lost_changes_and_loses_no_more(machine: Machine, installed: dict[str, Any]):
    machine.run("ci-daemon user add bob@example.org --name Bob")
    asked = machine.run("ci-daemon install --rollback", check=False)
    assert "users, builds and charges since then are lost" in asked.stderr
    assert len(run_json(machine, "org list")) == 2
    back = run_json(machine, "install --rollback --yes")
    assert back["release"] == installed["release"]
    assert back["database_of"]
    assert [each["slug"] for each in run_json(machine, "org list")] == [installed["owner"]["organization"]]
    assert "build #3 passed" in as_carl(machine, installed, "ci-daemon submit hello")


def test_it_comes_off_and_finds_its_data_again(machine: Machine, installed: dict[str, Any]):
    assert "Give --yes" in machine.run("ci-daemon uninstall", check=False).stderr
    machine.run("ci-daemon uninstall --yes")
    gone = "ls -d /opt/ci-daemon /usr/local/bin/ci-daemon /usr/local/share/*/*/*ci-daemon*; pgrep -u ci-daemon"
    assert not machine.run(gone, check=False).stdout
    machine.run(f"{OLDER}/install.sh", seconds=900)
    assert len(run_json(machine, f"build list {installed['owner']['organization']}/hello")) == 3

    machine.run("ci-daemon uninstall --data --yes")
    left = machine.run(
        "ls -d /opt/ci-daemon /etc/ci-daemon /var/lib/ci-daemon /usr/local/lib/systemd/system/ci-*;"
        " id ci-daemon; cat /etc/subuid | grep ci-daemon; pgrep -u 100000",
        check=False,
    )
    assert left.stdout == ""
    assert machine.run("systemctl list-units --all --plain --no-legend 'ci-daemon*'").stdout == ""


def _post(machine: Machine, url: str, body: object) -> Any:
    done = machine.run(f"curl -sS -H 'Content-Type: application/json' -d @- {url}", stdin=json.dumps(body))
    return json.loads(done.stdout)


def _jobs(machine: Machine, build: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = run_json(machine, f"build show {build}")["jobs"]
    return found


def _running(machine: Machine, build: str) -> dict[str, Any] | None:
    return next((job for job in _jobs(machine, build) if job["state"] == "running"), None)


def _state(machine: Machine, build: str) -> str:
    return str(run_json(machine, f"build show {build}")["state"])
