"""Terminals of a failed job's disk: two people, a crash between, and what nobody may do."""

from __future__ import annotations

import termios
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from storage import Role, Storage, SystemClock
from tests.e2e.daemon import Build, Client, Daemon, Pipeline
from tests.e2e.pipelines import Graph, one
from tests.e2e.terminal import Terminal
from tests.e2e.terminals import ApiTerminal
from tests.ports import reserved_port
from tests.state import run_sql

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def settings() -> Iterator[dict[str, str]]:
    """The service is found at the same address after a restart."""
    with reserved_port() as port:
        yield {
            "CI_DAEMON_HTTP_LISTEN": f"127.0.0.1:{port}",
            "CI_DAEMON_POOL_PARKED": "0",
            "CI_DAEMON_POOL_MAX_VMS": "4",
            "CI_DAEMON_TERMINALS_MOST_PER_USER": "2",
        }


@pytest.fixture(autouse=True)
def _no_vm_is_left(daemon: Daemon) -> Iterator[None]:
    yield
    daemon.end_vms()


def joined(client: Client, email: str) -> Client:
    """Return another member of the client's organization."""
    other = Client.create(client.daemon, email)
    with closing(Storage.open(client.daemon.state, SystemClock())) as storage:
        user, organization = storage.users.by_email(email), storage.organizations.by_slug(client.org)
        assert user is not None
        assert organization is not None
        with storage.transaction():
            storage.organizations.add_member(organization.id, user.id, Role.MEMBER)
    return Client(client.daemon, email, client.org, other.token)


def job_of(build: Build, key: str) -> str:
    return f"{build.path}/jobs/{build.jobs()[key]['id']}"


def resident_bytes(daemon: Daemon) -> int:
    """Return the memory of the daemon's process."""
    (line,) = (each for each in Path(f"/proc/{daemon.pid}/status").read_text().splitlines() if "VmRSS" in each)
    return int(line.split()[1]) << 10


def test_two_people_look_into_one_failure(daemon: Daemon, pipeline: Pipeline, client: Client):
    """They do not see each other's changes, and both go on after the daemon was killed and started again."""
    client.request("PUT", "secrets/TOKEN", json={"value": "hunter2-and-more"})
    graph = Graph().step("setup", "echo ready >/etc/ready")
    test = "echo tried >>tries; echo $TOKEN >/etc/copied; exit 3"
    graph.step("test", test, builds_in="setup", runner_args={"secrets": ["TOKEN"]}, env={"COLOUR": "red"})
    build = pipeline.build(graph.ir())
    assert build.finish()["state"] == "failed"
    recorded = build.jobs()["test"]
    grace = joined(client, "grace@example.org")
    job = job_of(build, "test")
    mine, hers = ApiTerminal.opened(client, job), ApiTerminal.opened(grace, job, before=True, columns=101)
    for terminal in (mine, hers):
        terminal.shows("# ")
    mine.type("cat tries /etc/copied; echo $COLOUR ${TOKEN-none}; echo mine >>tries\r")
    mine.shows("tried\r\n***\r\nred none\r\n")
    hers.type("ls | wc -l; stty size; echo hers >tries\r")
    hers.shows("0\r\n24 101\r\n")
    for terminal in (mine, hers):
        terminal.type("(sleep 2; echo sl''ept) & \r")
    daemon.kill()
    daemon.start()
    for terminal, text in ((mine, "tried\r\nmine\r\n"), (hers, "hers\r\n")):
        terminal.shows("slept")
        before = len(terminal.shown)
        terminal.type("cat tries\r")
        terminal.shows(text, since=before)
        assert b"***" not in terminal.shown[before:]
    hers.type("exit 5\r")
    assert hers.ends("exit") == {"exit_code": 5}
    assert client.request("DELETE", mine.path).status_code == 204
    assert mine.ends("end") == {"why": "it was closed"}
    daemon.wait_until_idle()
    assert build.jobs()["test"] == recorded
    assert daemon.vms() == []
    entries = client.get(f"/api/v0/billing/transactions/{client.org}")["data"]
    assert [each["description"] for each in entries].count("demo #1 test, forked") == 2
    assert daemon.command("ledger", "verify").returncode == 0
    acts = [(each["action"], each["actor"]) for each in daemon.json("audit", "--limit", "100")]
    for email in (client.email, grace.email):
        assert acts.count(("openTerminal", email)) == 1


def test_a_terminal_is_its_users_while_they_may(daemon: Daemon, pipeline: Pipeline, client: Client):
    """Nobody else reaches it, and it ends with the role of who opened it, or the token."""
    build = pipeline.build(one("exit 3"))
    build.finish()
    job = job_of(build, "only")
    ada = joined(client, "ada@example.org")
    stranger = Client.create(daemon, "eve@example.org")
    terminal = ApiTerminal.opened(ada, job)
    terminal.shows("# ")
    ours = f"/api/v0/organizations/{client.org}/"
    for path in (f"{ours}{job}/terminals", f"{ours}{terminal.path}/input"):
        assert stranger.request("POST", path, json={}).status_code == 404
    for method, path in (("GET", terminal.path), ("GET", f"{terminal.path}/output"), ("DELETE", terminal.path)):
        assert client.request(method, path).json()["error"]["code"] == "terminal_not_found"
    second = ApiTerminal.opened(ada, job)
    second.shows("# ")
    refused = ada.request("POST", f"{job}/terminals", json={})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "too_many_terminals")
    (member,) = (each for each in client.get("members")["data"] if each["email"] == ada.email)
    assert client.request("DELETE", f"members/{member['user_uuid']}").status_code == 204
    for each in (terminal, second):
        each.ends("end", seconds=5)
    assert ada.request("POST", f"{terminal.path}/input", json={"at": 0, "data": "bHM="}).status_code == 404
    daemon.wait_until_idle()
    assert daemon.vms() == []


def test_a_shell_at_a_server_is_a_terminal_of_its_own(daemon: Daemon, pipeline: Pipeline, client: Client):
    """It goes on while the service is killed and started again, and exits as its shell does."""
    build = pipeline.build(one("echo hello >made; exit 3"))
    build.finish()
    named = f"{client.org}/{pipeline.slug}/{build.record()['number']}/only"
    terminal = Terminal(daemon, named, command="shell", server=client)
    try:
        terminal.shows("# ")
        terminal.type("cat made; stty size\r")
        terminal.shows("hello\r\n40 100\r\n")
        terminal.resize(30, 90)
        terminal.type("\r")
        daemon.kill()
        terminal.shows("the connection is lost")
        daemon.start()
        terminal.type("stty size\r")
        terminal.shows("30 90\r\n")
        terminal.type("exit 5\r")
        assert terminal.process.wait(30) == 5
        assert terminal.before == termios.tcgetattr(terminal.theirs)
    finally:
        terminal.close()
    daemon.wait_until_idle()
    assert daemon.vms() == []


def test_a_flood_of_output_neither_fills_nor_blocks_the_service(daemon: Daemon, pipeline: Pipeline, client: Client):
    """A program that prints without end waits for its reader, and is interrupted at once."""
    build = pipeline.build(one("exit 3"))
    build.finish()
    terminal = ApiTerminal.opened(client, job_of(build, "only"))
    terminal.shows("# ")
    before = resident_bytes(daemon)
    terminal.type("yes\r")
    terminal.shows("y\r\n" * 500_000)
    assert client.get(build.path)["state"] == "failed"
    assert resident_bytes(daemon) - before < 32 << 20
    terminal.type("\x03")
    since = len(terminal.shown)
    terminal.type("echo $((6*7))\r")
    terminal.shows("42\r\n", since=since)
    assert len(terminal.shown) - since < 16 << 20


def test_a_terminal_ends_when_nobody_types(daemon: Daemon, pipeline: Pipeline, client: Client):
    """Each key gives it the whole time again; without any it ends."""
    build = pipeline.build(one("exit 3"))
    build.finish()
    terminal = ApiTerminal.opened(client, job_of(build, "only"))
    terminal.shows("# ")
    soon = "CAST(unixepoch('subsec') * 1000000 AS INTEGER)"
    run_sql(daemon.state, f"UPDATE holds SET until = {soon} + 3000000 WHERE finished_at IS NULL")
    terminal.type("echo $((6*7))\r")
    terminal.shows("42\r\n")
    left = datetime.fromisoformat(client.get(terminal.path)["until"]) - datetime.now(UTC)
    assert timedelta(minutes=29) < left <= timedelta(minutes=30)
    run_sql(daemon.state, "UPDATE holds SET until = started_at WHERE finished_at IS NULL")
    assert "nobody has typed" in terminal.ends("end", seconds=10)["why"]
    late = client.request("POST", f"{terminal.path}/input", json={"at": 0, "data": "bHM="})
    assert late.json()["error"]["code"] == "terminal_ended"
    daemon.wait_until_idle()
    assert daemon.vms() == []
