"""The packages on machines with systemd: installed, upgraded, downgraded, removed and purged.

Each test continues where the one before ended. `make deb` has made the packages, of one release or of several.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.pipelines import one
from tests.system.machine import Machine
from tests.system.service import Service
from tests.waiting import until

CHECKOUT = Path(__file__).parents[2]
RELEASES = {"bookworm": "debian12", "trixie": "debian13", "noble": "ubuntu24.04"}
MADE = {
    suite: made for suite, release in RELEASES.items() for made in CHECKOUT.glob(f"dist/ci-daemon_*~{release}_*.deb")
}
OLD, NEW = "0.0.1-1", "99.0-1"
HOLD = "sleep 98765"
HELD = f"echo held; {HOLD} || echo let go"
LATER = "usr/lib/ci-daemon/lib/python*/site-packages/storage/migrations"


def package(made: Path, folder: Path, version: str, later: str = "") -> Path:
    """Make the package of another version, with a later migration."""
    tree = folder / version
    subprocess.run(["dpkg-deb", "--raw-extract", made, tree], check=True)
    control = tree / "DEBIAN/control"
    lines = control.read_text().splitlines()
    control.write_text("".join(f"Version: {version}\n" if x.startswith("Version:") else f"{x}\n" for x in lines))
    if later:
        (migrations,) = tree.glob(LATER)
        (migrations / "9999_later.sql").write_text(later)
    subprocess.run(["dpkg-deb", "-Zgzip", "-z1", "--root-owner-group", "--build", tree, f"{tree}.deb"], check=True)
    return Path(f"{tree}.deb")


@pytest.fixture(scope="module", params=MADE or ["none"])
def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    suite = request.param
    assert suite in MADE, "run `make deb`"
    folder = tmp_path_factory.mktemp("packages")
    with Machine(suite) as made:
        made.put(package(MADE[suite], folder, OLD), "/srv/old.deb")
        later = "CREATE TABLE later (id INTEGER PRIMARY KEY) STRICT;\n"
        made.put(package(MADE[suite], folder, NEW, later), "/srv/new.deb")
        yield made


@pytest.fixture(scope="module")
def owner(machine: Machine) -> dict[str, Any]:
    """The first owner's access, made after the package was installed without a network."""
    machine.run("ip link set tap0 down; dpkg --install /srv/old.deb; ip link set tap0 up", seconds=900)
    machine.run("ip route add default via 10.97.0.2", check=False)
    answer: dict[str, Any] = json.loads(
        machine.run("ci-daemon install --owner ada@example.org --json", seconds=900).stdout
    )
    return {"url": answer["url"], **answer["owner"]}


def submit(machine: Machine, owner: dict[str, Any], command: str) -> str:
    """Build one command with the service, and return what `submit` prints."""
    machine.write("/srv/ir.json", one(command))
    access = f"CI_DAEMON_URL={owner['url']} CI_DAEMON_TOKEN={owner['token']}"
    return machine.run(
        f"mkdir -p /srv/tree; {access} ci-daemon submit /srv/tree --ir /srv/ir.json --pipeline demo"
    ).stdout


def main_pid(machine: Machine, unit: str) -> str:
    return machine.run(f"systemctl show --value --property MainPID {unit}").stdout.strip()


def test_it_serves_without_a_question_or_a_network(machine: Machine, owner: dict[str, Any]):
    assert machine.run("systemctl is-enabled ci-daemon; systemctl is-active ci-daemon").stdout.split() == [
        "enabled",
        "active",
    ]
    assert machine.run("stat -c '%U %G %a' /var/lib/ci-daemon /etc/ci-daemon/ci-daemon.toml").stdout.splitlines() == [
        "ci-daemon ci-daemon 700",
        "root ci-daemon 640",
    ]
    assert (
        machine.run("grep -h ci-daemon /etc/subuid /etc/subgid").stdout.splitlines() == ["ci-daemon:100000:65536"] * 2
    )
    changed = machine.run("dpkg --verify ci-daemon").stdout.splitlines()
    assert [line for line in changed if not re.search("/usr/share/(doc|man)/", line)] == []  # not on these machines
    assert not machine.run("find /var/lib/ci-daemon -user root; find /usr/lib/ci-daemon ! -user root").stdout
    printed = submit(machine, owner, "echo it is built")
    assert "it is built" in printed
    assert "build #1 passed" in printed
    assert "it is built" in machine.run(f"ci-daemon build logs {owner['organization']}/demo/1").stdout


def test_an_upgrade_keeps_jobs_and_saves_the_database(machine: Machine, owner: dict[str, Any]):
    running = Service(machine, owner["url"], owner["token"], owner["organization"]).build(HELD)
    running.says("held")
    vms = main_pid(machine, "ci-daemon-vms")
    machine.run("dpkg --install /srv/new.deb", seconds=900)
    assert main_pid(machine, "ci-daemon-vms") == vms
    machine.run(f"pkill --exact --full '{HOLD}'")
    running.passes()
    assert "let go" in running.log()
    assert running.job()["attempt"] == 1
    assert machine.run("stat -c '%U %a' /var/backups/ci-daemon.sqlite3").stdout.split() == ["root", "600"]
    assert "build #3 passed" in submit(machine, owner, "true")


def test_a_downgrade_says_that_the_database_is_too_new(machine: Machine, owner: dict[str, Any]):
    machine.run("dpkg --install /srv/old.deb", check=False, seconds=900)
    state = "/var/lib/ci-daemon/ci-daemon.sqlite3"
    machine.run("systemctl stop ci-daemon")
    machine.run(f"rm -f {state}-*; install -o ci-daemon -g ci-daemon -m 600 /var/backups/ci-daemon.sqlite3 {state}")
    machine.run("dpkg --configure --pending; systemctl start ci-daemon")
    machine.run(f"ci-daemon build cancel {owner['organization']}/demo/2")  # it ran when the database was saved
    assert "build #3 passed" in submit(machine, owner, "true")


def test_what_the_package_manager_does_is_left_to_it(machine: Machine, owner: dict[str, Any]):
    for command, words in {
        "uninstall": "apt-get remove ci-daemon",
        "install --rollback": "belongs to a package",
    }.items():
        refused = machine.run(f"ci-daemon {command}", check=False)
        assert refused.returncode == 1
        assert words in refused.stderr


def test_removing_it_keeps_the_data_and_purging_does_not(machine: Machine, owner: dict[str, Any]):
    machine.run("dpkg --remove ci-daemon", seconds=900)
    until(lambda: machine.run("pgrep -u ci-daemon", check=False).stdout == "", "the end of the service's processes", 60)
    assert machine.run("ls -d /usr/lib/ci-daemon /usr/bin/ci-daemon", check=False).stdout == ""
    machine.run("dpkg --install /srv/old.deb", seconds=900)
    assert "build #4 passed" in submit(machine, owner, "true")
    machine.run("dpkg --purge ci-daemon", seconds=900)
    left = machine.run(
        "ls -d /usr/lib/ci-daemon /etc/ci-daemon /var/lib/ci-daemon /var/backups/ci-daemon*; id ci-daemon;"
        " grep ci-daemon /etc/subuid /etc/subgid",
        check=False,
    )
    assert left.stdout == ""
    assert machine.run("systemctl list-units --all --plain --no-legend 'ci-daemon*'").stdout == ""
