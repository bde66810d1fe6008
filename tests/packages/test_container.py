"""The container, built and started by an ordinary user. `make deb` has made its package."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.debian import bootstrap, kept, of_host
from tests.system import template
from tests.system.machine import Machine
from tests.waiting import until

CHECKOUT = Path(__file__).parents[2]
BASE = "docker.io/library/debian:bookworm-slim"
RIGHTS = "--device /dev/net/tun --cap-add sys_admin --security-opt unmask=ALL"
SETTINGS = {
    "containers": '[containers]\ncgroups = "disabled"\n',  # controllers may be those of the first version on this host
    "storage": '[storage]\ndriver = "overlay"\n',
}
OF_ROOT = SETTINGS | {
    "storage": SETTINGS["storage"] + 'runroot = "/run/containers/storage"\ngraphroot = "/var/lib/containers/storage"\n'
}


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    """A machine with Podman and an ordinary user, who has built the container."""
    recipe = partial(bootstrap, "bookworm", packages=["ca-certificates"], hooks=[])
    base = kept(template.FOLDER, "container-base", of_host(), recipe)
    (package,) = (CHECKOUT / "dist").glob("ci-daemon_*~debian12_*.deb")
    with Machine() as made:
        made.run(
            "apt-get update && apt-get install --yes --no-install-recommends podman dbus-user-session", seconds=900
        )
        made.run("mount -o remount,rw /sys")  # the kernel lets a container have it only as the machine has it
        made.run("useradd --create-home --shell /bin/bash ada && loginctl enable-linger ada")
        for name, text in SETTINGS.items():
            made.write(f"/home/ada/.config/containers/{name}.conf", text)
        made.put_checkout("/home/ada/ci-daemon")
        made.run("mkdir /home/ada/ci-daemon/dist")
        made.put(package, "/home/ada/ci-daemon/dist")
        made.run("chown --recursive ada: /home/ada")
        subprocess.run(["tar", "-cf", made.root / "srv/base.tar", "-C", base, "."], check=True)
        podman(made, f"import /srv/base.tar {BASE}")
        podman(made, "build --pull-never --tag ci-daemon .")
        yield made


def podman(machine: Machine, command: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    bus = "export XDG_RUNTIME_DIR=/run/user/$(id -u) && export DBUS_SESSION_BUS_ADDRESS=unix:path=$XDG_RUNTIME_DIR/bus"
    script = f"{bus} && cd ~/ci-daemon && podman {command}"
    return machine.run(f"su - ada -c {shlex.quote(script)}", check=check, seconds=900)


def test_no_state_or_key_is_in_it(machine: Machine):
    kept_there = podman(
        machine, "run --rm --entrypoint find ci-daemon / -xdev -name 'secret.key*' -o -name '*.sqlite3'"
    )
    assert kept_there.stdout == ""


@pytest.mark.parametrize("rights", ["--privileged", RIGHTS], ids=["all rights", "the rights it needs"])
def test_it_builds_an_example(machine: Machine, rights: str):
    here = "--volume .:/src --volume images:/root/.cache/ci-daemon"
    printed = podman(machine, f"run --rm {rights} {here} ci-daemon run /src/examples/hello").stdout
    assert re.search(r"^build #\d passed", printed, re.MULTILINE)


def test_what_vms_leave_is_reaped(machine: Machine):
    """A VM ends as a child of PID 1, for the process that started it has ended before."""
    here = "--volume images:/root/.cache/ci-daemon --env CI_DAEMON_IMAGES_DIR=/root/.cache/ci-daemon/images"
    command = "ci-daemon --state-dir /root/.cache/ci-daemon/state"

    def inside(line: str) -> str:
        return podman(machine, f"exec served {line}").stdout

    def parked() -> bool:
        listed = json.loads(inside(f"{command} lease list --json"))
        return any(each["state"] == "parked" for each in listed)

    def processes() -> list[str]:
        return inside("sh -c 'cat /proc/[0-9]*/stat 2>/dev/null || true'").splitlines()

    podman(machine, f"run --rm {here} {command} init")
    podman(machine, f"run --rm --privileged {here} {command} image build")
    podman(machine, f"run --detach --name served --privileged {here} {command} serve")
    try:
        until(parked, "a parked VM", 120)
        inside(f"{command} lease kill --all")
        until(lambda: not [each for each in processes() if ") Z 1 " in each], "the end of what the VM left")
    finally:
        podman(machine, "rm --force --time 20 served")


def test_without_rights_it_says_how_to_start_it(machine: Machine):
    refused = podman(machine, "run --rm --volume .:/src ci-daemon run /src/examples/hello", check=False)
    assert refused.returncode == 1
    assert "start a container with more rights (podman, docker: --privileged)" in refused.stderr


def test_root_can_start_it_too(machine: Machine):
    for name, text in OF_ROOT.items():
        machine.write(f"/etc/containers/{name}.conf", text)
    podman(machine, "save --output container.tar ci-daemon")
    machine.run("podman load --input /home/ada/ci-daemon/container.tar", seconds=900)
    here = "--volume /home/ada/ci-daemon:/src --volume images:/root/.cache/ci-daemon"
    printed = machine.run(f"podman run --rm --privileged {here} ci-daemon run /src/examples/hello", seconds=900).stdout
    assert re.search(r"^build #\d passed", printed, re.MULTILINE)
