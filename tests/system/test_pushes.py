"""From a push to a git server beside the installed service to its build, its logs and its mails."""

from __future__ import annotations

import json
import shlex
from typing import Any

from tests.e2e.daemon import FINAL
from tests.system.machine import Machine
from tests.system.service import Service
from tests.waiting import until

BARE, TREE = "/srv/git/acme/web.git", "/srv/git/tree"
PIPELINE = """\
import harmont as hm


@hm.pipeline("ci", triggers=[hm.push(branch="main")])
def ci() -> hm.Step:
    return hm.sh("sh check.sh", label="check")
"""
SLUG = "acme-web-ci"
MAILBOX = "systemd-run --quiet --unit mailbox python3 -u -W ignore -m smtpd -n -c DebuggingServer 127.0.0.1:2525"
MAIL = {"host": '"127.0.0.1"', "port": "2525", "security": '"none"'}


def as_git(machine: Machine, command: str) -> str:
    """Run a shell command as the git server's user; return its output."""
    return machine.run(f"su git -s /bin/sh -c {shlex.quote(command)}").stdout


def git_server(machine: Machine) -> None:
    """Make a git server's user with an empty bare repository and a working tree of it."""
    machine.run("useradd --system --create-home --home-dir /srv/git git; chmod 755 /srv/git")
    as_git(machine, f"git init --quiet --bare --initial-branch=main {BARE} && git clone --quiet {BARE} {TREE}")
    as_git(machine, f"cd {TREE} && git config user.name Ada && git config user.email ada@example.org")
    machine.write(f"{TREE}/.hm/pipeline.py", PIPELINE)


def push(machine: Machine, check: str) -> str:
    """Push a commit whose check is this script; return what the pusher sees."""
    machine.write(f"{TREE}/check.sh", check)
    machine.run(f"chown -R git: {TREE}")
    return as_git(
        machine, f"cd {TREE} && git add . && git commit --quiet -m 'Change the check' && git push origin HEAD:main 2>&1"
    )


def configure_mail(machine: Machine) -> None:
    """Run a mail server that prints what it gets, and let the service send to it."""
    machine.run(MAILBOX)
    for key, value in MAIL.items():
        edit = f"/^\\[mail\\]/,/^\\[/ s/^#{key} = .*/{key} = {value}/"
        machine.run(f"sed -i {shlex.quote(edit)} /etc/ci-daemon/ci-daemon.toml")
    machine.run("ci-daemon config check && systemctl reload ci-daemon")


def answered(machine: Machine, command: str) -> Any:
    return json.loads(machine.run(f"ci-daemon --json {command}").stdout)


def looked_at(machine: Machine) -> bool:
    """Tell whether the service has looked at the connected repository; it must find no fault."""
    (repository,) = answered(machine, "repo list")
    assert repository["last_error"] is None, repository
    return repository["checked_at"] is not None


def ended(machine: Machine, build: str) -> Any:
    """Wait for the end of a build that may not be there yet; return it."""

    def look() -> Any:
        done = machine.run(f"ci-daemon --json build show {build}", check=False)
        found = json.loads(done.stdout) if done.returncode == 0 else None
        return found if found and found["state"] in FINAL else None

    return until(look, f"the end of {build}", 180)


def mailed(machine: Machine, subject: str) -> str:
    """Wait for a mail with this in its subject; return all mails."""

    def look() -> str | None:
        journal = machine.journal("--unit", "mailbox")
        return journal if subject in journal else None

    return until(look, f"the mail: {subject}", 60)


def test_a_push_is_built_and_its_failure_and_recovery_are_mailed(machine: Machine):
    org = Service.installed_on(machine).org
    configure_mail(machine)
    git_server(machine)
    connected = answered(machine, f"repo connect {BARE} --org {org} --poll 3600")
    as_git(machine, f"cd {BARE} && {connected['hook_script']}")
    until(lambda: looked_at(machine), "the first look", 60)

    assert f"ci-daemon: main: {SLUG} #1 http" in push(machine, "echo all is well")
    assert ended(machine, f"{org}/{SLUG}/1")["state"] == "passed"
    assert "all is well" in machine.run(f"ci-daemon build logs {org}/{SLUG}/1").stdout
    assert [each["state"] for each in answered(machine, "webhook list")] == ["processed"]

    answered(machine, f"notify add {org} {SLUG} email")
    push(machine, "echo the reason; exit 3")
    assert ended(machine, f"{org}/{SLUG}/2")["state"] == "failed"
    assert "the reason" in mailed(machine, f"{SLUG} has failed on main: build 2")
    push(machine, "echo well again")
    assert ended(machine, f"{org}/{SLUG}/3")["state"] == "passed"
    mailed(machine, f"{SLUG} passes again on main: build 3")
