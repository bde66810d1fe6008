"""Pushes to a real repository on the host: which of them are built, and what their jobs see."""

from __future__ import annotations

import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.daemon import Build, Client, Daemon
from tests.git_repository import GitRepository
from tests.git_servers.ssh import ssh_server
from tests.ports import reserved_port
from tests.waiting import until

PIPELINE = """
import harmont as hm

@hm.pipeline("ci", triggers=[hm.push(branch=["main", "feature/*"]), hm.push(tag="v*")])
def ci():
    look = "echo $CI_BRANCH $CI_COMMIT tag=$CI_TAG; git describe; git log --format=%s; git status --short"
    look += "; git diff --name-only origin/main..."
    return hm.sh(look, label="look")
"""
PAGE = "pipelines/acme-web-ci/builds"


@pytest.fixture(scope="module")
def settings(settings: dict[str, str]) -> Iterator[dict[str, str]]:
    """A port that a restart keeps, because the hooks of repositories know it."""
    with reserved_port() as port:
        yield settings | {"CI_DAEMON_HTTP_LISTEN": f"127.0.0.1:{port}"}


@pytest.fixture
def repository(daemon: Daemon, client: Client, tmp_path: Path) -> Iterator[GitRepository]:
    """A repository with a tag that was connected after its first commits."""
    made = GitRepository(tmp_path)
    made.commit("Begin", **{".hm__pipeline.py": PIPELINE})
    made.git("tag", "--annotate", "v0", "--message", "The start")
    made.push("main", "v0", "main:other")
    daemon.command("repo", "connect", str(made.bare), "--org", client.org, "--poll", "1")
    until(lambda: connection(daemon, made)["checked_at"], "the first look")
    yield made
    daemon.command("repo", "remove", str(made.bare), "--org", client.org)


def connection(daemon: Daemon, repository: GitRepository) -> Any:
    return _listed(daemon, str(repository.bare))


def checked(daemon: Daemon, repository: GitRepository) -> None:
    """Wait for the end of a look at the repository that begins from now on, the second that ends."""
    for _ in range(2):
        before = connection(daemon, repository)["checked_at"]
        until(lambda before=before: connection(daemon, repository)["checked_at"] != before, "a look", 60)


def builds(client: Client) -> list[Any]:
    """Return the builds of the repository's pipeline, oldest first; none while there is no pipeline."""
    response = client.request("GET", PAGE)
    return response.json()["data"][::-1] if response.status_code == 200 else []


def built(client: Client, number: int) -> Build:
    until(lambda: len(builds(client)) >= number, f"build {number}", 90)
    return Build(client, f"{PAGE}/{number}")


def test_a_push_makes_a_build_of_the_pushed_commit(daemon: Daemon, client: Client, repository: GitRepository):
    assert builds(client) == []
    commit = repository.commit("Add a file\n\nWith a body.", a="1")
    repository.push("main")
    record = built(client, 1).finish(90)
    assert (record["state"], record["branch"], record["commit"]) == ("passed", "main", commit)
    assert (record["source"], record["message"]) == ("webhook", "Add a file\n\nWith a body.")
    log = built(client, 1).log("look")
    assert f"main {commit} tag=\n" in log
    assert log.endswith(f"v0-1-g{commit[:7]}\nAdd a file\nBegin\n"), "git status says that a file differs"

    repository.git("tag", "v1")
    repository.push("v1")
    assert built(client, 2).finish(90)["state"] == "passed"
    assert f"v1 {commit} tag=v1\n" in built(client, 2).log("look")


def test_only_pushes_that_a_trigger_wants_are_built(daemon: Daemon, client: Client, repository: GitRepository):
    repository.commit("Fix [skip ci]", a="1")
    repository.push("main")
    repository.commit("Unwanted", a="2")
    repository.push("HEAD:wip", ":other")
    rewritten = [repository.commit("Try", a="3")]
    repository.push("HEAD:feature/x")
    built(client, 1)
    repository.git("commit", "--quiet", "--amend", "--message", "Try again")
    rewritten.append(repository.git("rev-parse", "HEAD"))
    repository.push("--force", "HEAD:feature/x")
    built(client, 2).finish(90)
    assert built(client, 2).log("look").endswith("Begin\na\n"), "git does not find the merge base with main"
    repository.push(":feature/x")
    checked(daemon, repository)
    assert [each["commit"] for each in builds(client)] == rewritten
    assert [each["branch"] for each in builds(client)] == ["feature/x"] * 2


def test_only_changes_of_files_that_a_step_names_are_built(daemon: Daemon, client: Client, repository: GitRepository):
    args = 'key="look", image="debian:12", runner_args={"paths": ["src", "!**/*.md"]})'
    named = PIPELINE.replace("hm.sh(", "hm.scratch().sh(").replace('label="look")', args)
    repository.commit("Name the files", **{".hm__pipeline.py": named})
    repository.push("main")
    repository.commit("Describe", **{"src__note.md": "1"}, docs__a="1")
    repository.push("main")
    checked(daemon, repository)
    assert builds(client) == []
    wanted = [repository.commit("Change", src__a="1")]
    repository.push("main")
    built(client, 1)
    wanted.append(repository.commit("A new branch", docs__b="1"))
    repository.push("HEAD:feature/new")
    built(client, 2)
    assert [each["commit"] for each in builds(client)] == wanted


def test_a_job_of_another_connected_repository_is_used(
    daemon: Daemon, client: Client, repository: GitRepository, tmp_path: Path
):
    shared = GitRepository(tmp_path / "shared", "shared")
    shared.commit("Say", **{".hm__jobs__say.yml": "inputs: {what: {}}\nrun: echo ${{ with.what }} of the tag\n"})
    shared.git("tag", "v1")
    shared.push("main", "v1")
    shared.commit("Say another", **{".hm__jobs__say.yml": "run: echo of the branch\n"})
    shared.push("main")
    daemon.command("repo", "connect", str(shared.bare), "--org", client.org)
    uses = "on: {push: {}}\njobs: {look: {use: acme/shared//jobs/say.yml@v1, with: {what: hello}}}\n"
    repository.commit("Use it", **{".hm__ci.yml": uses})
    repository.git("rm", "--quiet", ".hm/pipeline.py")
    repository.git("commit", "--quiet", "--message", "In YAML alone")
    repository.push("main")
    first = built(client, 1)
    assert first.finish(90)["state"] == "passed"
    assert "hello of the tag" in first.log("look").splitlines()
    daemon.command("repo", "remove", str(shared.bare), "--org", client.org)
    repository.commit("Again", a="1")
    repository.push("main")
    failed = built(client, 2).finish(90)
    assert failed["error_code"] == "render_failed"
    assert 'the organization has connected no repository "acme/shared"' in failed["error_message"]


def test_a_newer_push_takes_the_turn_of_one_that_waits(client: Client, repository: GitRepository):
    slow = PIPELINE.replace('look = "', 'look = "echo begun; test -e fast || sleep 600; ')
    repository.commit("Slow", **{".hm__pipeline.py": slow})
    repository.push("main")
    first = built(client, 1)
    assert client.request("PATCH", "pipelines/acme-web-ci", json={"concurrency_group": "{branch}"}).status_code == 200
    first.cancel()
    repository.commit("Slow again", a="1")
    repository.push("main")
    second = built(client, 2)
    second.says("begun", "look")
    repository.commit("Slow too", a="2")
    repository.push("main")
    third = built(client, 3)
    reason = 'waiting for acme-web-ci/2: the concurrency group "main" runs 1 build at a time'
    assert third.record()["pending_reason"] == reason
    repository.commit("Fast", fast="1")
    repository.push("main")
    last = built(client, 4)
    superseded = third.finish()
    assert (superseded["state"], superseded["error_code"]) == ("canceled", "superseded")
    assert superseded["error_message"] == "build 4 is of a newer commit"
    assert last.record()["pending_reason"] == reason
    second.cancel()
    assert last.finish(90)["state"] == "passed"


def test_a_push_that_cannot_be_rendered_is_a_failed_build(daemon: Daemon, client: Client, repository: GitRepository):
    repository.commit("Good", a="1")
    repository.push("main")
    built(client, 1)
    repository.commit("Bad", **{".hm__pipeline.py": "oops"})
    repository.push("main")
    record = built(client, 2).record()
    assert (record["state"], record["error_code"]) == ("failed", "render_failed")
    assert "NameError" in record["error_message"]


def test_a_first_pipeline_that_cannot_be_rendered_is_logged(daemon: Daemon, client: Client, repository: GitRepository):
    """There is no pipeline yet whose failed build would say so."""
    commit = repository.commit("Bad", **{".hm__pipeline.py": "oops"})
    repository.push("main")
    until(lambda: f"{repository.bare} is at {commit}: " in daemon.log, "the warning", 90)
    assert "NameError" in daemon.log
    assert builds(client) == []


def test_a_push_that_triggers_nothing_is_logged(daemon: Daemon, client: Client, repository: GitRepository):
    untriggered = PIPELINE.replace('"ci", triggers=[hm.push(branch=["main", "feature/*"]), hm.push(tag="v*")]', '"ci"')
    commit = repository.commit("Trigger nothing", **{".hm__pipeline.py": untriggered})
    repository.push("main")
    why = f"{repository.bare} is at {commit}: '0 builds: no pipeline has a trigger for "
    until(lambda: why in daemon.log, "the line", 90)
    assert builds(client) == []


def test_a_repository_that_is_gone_says_so(daemon: Daemon, client: Client, repository: GitRepository):
    away = repository.bare.rename(repository.bare.with_name("away.git"))
    until(lambda: connection(daemon, repository)["last_error"], "an error")
    assert "git ls-remote failed" in connection(daemon, repository)["last_error"]
    away.rename(repository.bare)
    until(lambda: connection(daemon, repository)["last_error"] is None, "a look that works", 60)


def test_a_hook_reports_each_push_and_none_is_lost_or_doubled(daemon: Daemon, client: Client, tmp_path: Path):
    hooked = GitRepository(tmp_path)
    hooked.commit("Begin", **{".hm__pipeline.py": PIPELINE})
    hooked.push("main")
    connected = daemon.json("repo", "connect", str(hooked.bare), "--org", client.org, "--poll", "86400")
    assert connected["hook"]
    until(lambda: connection(daemon, hooked)["checked_at"], "the first look")
    pushed = []
    for number in range(3):
        if number == 2:  # a new token, by the lines that are for other hosts
            renewed = daemon.json("repo", "hook", str(hooked.bare), "--org", client.org)["hook_script"]
            subprocess.run(("sh", "-ec", renewed), cwd=hooked.bare, check=True)
        pushed.append(hooked.commit(f"Change {number}", a=str(number)))
        hooked.push("main")
    built(client, 3)
    until(lambda: all(each["state"] == "processed" for each in daemon.json("webhook", "list")), "the processing")
    assert [each["commit"] for each in builds(client)] == pushed
    latest = daemon.json("webhook", "list")[0]
    assert latest["url"] == str(hooked.bare)
    assert daemon.json("webhook", "show", latest["id"])["body"] == f"{pushed[1]} {pushed[2]} refs/heads/main\n"
    daemon.command("webhook", "redeliver", latest["id"])
    until(lambda: daemon.json("webhook", "list")[0]["attempts"] == 2, "another attempt")
    assert len(builds(client)) == 3
    assert stat.S_IMODE((hooked.bare / "ci-daemon.token").stat().st_mode) == 0o600

    assert daemon.stop() == 0
    pushed.append(hooked.commit("While it is away", a="away"))
    hooked.push("main")
    daemon.start()
    assert built(client, 4).record()["commit"] == pushed[3]
    before = connection(daemon, hooked)["checked_at"]
    daemon.kill()
    daemon.start()
    until(lambda: connection(daemon, hooked)["checked_at"] != before, "the look at the start")
    assert len(builds(client)) == 4
    daemon.command("repo", "remove", str(hooked.bare), "--org", client.org)
    assert not (hooked.bare / "hooks" / "post-receive").exists()
    hooked.push("main:other")


def test_who_pushes_sees_what_the_push_started(daemon: Daemon, client: Client, tmp_path: Path):
    """In the terminal: a build with its address, or why there is none. Nothing hinders the push."""
    hooked = GitRepository(tmp_path)
    hooked.commit("Begin", **{".hm__pipeline.py": PIPELINE})
    hooked.push("main")
    daemon.command("repo", "connect", str(hooked.bare), "--org", client.org, "--poll", "86400")
    names = count(1)

    def push() -> bool:
        number = next(names)
        hooked.commit(f"Change {number}", a=str(number))
        shown = pushed(hooked, "main")
        page = f"http://localhost:{daemon.url.rpartition(':')[2]}/{client.org}/{PAGE}/{number}"
        return f"remote: ci-daemon: main: acme-web-ci #{number} {page}" in shown

    until(push, "a push whose build begins while the pusher waits", 90)
    shown = pushed(hooked, "main:wip")
    assert 'remote: ci-daemon: wip: nothing was built: no pipeline has a trigger for the branch "wip"' in shown
    assert "remote: ci-daemon: wip: nothing was built: it was deleted" in pushed(hooked, ":wip")
    hooked.commit("Say nothing [skip ci]", a="skipped")
    assert "nothing was built: the message of its commit says [skip ci]" in pushed(hooked, "main")

    assert daemon.stop() == 0
    hooked.commit("While it is away", a="away")
    begun = time.monotonic()
    assert "remote: ci-daemon was not told of this push" in pushed(hooked, "main")
    with socket.create_server(("127.0.0.1", int(daemon.url.rpartition(":")[2]))):
        hooked.commit("While it hangs", a="hangs")
        assert "(no answer within 10 seconds)" in pushed(hooked, "main")
    assert time.monotonic() - begun < 15
    daemon.start()
    daemon.command("repo", "remove", str(hooked.bare), "--org", client.org)


def test_the_printed_hook_reports_what_is_pushed_to_a_server(daemon: Daemon, client: Client, tmp_path: Path):
    """Run it as printed, twice; push several heads at once, and while the service is away or hangs."""
    remote = GitRepository(tmp_path)
    remote.commit("Begin", **{".hm__pipeline.py": PIPELINE})
    remote.push("main", "main:feature/old")
    with ssh_server(tmp_path / "ssh") as server:
        url = server.url(remote.bare)
        connected = daemon.json("repo", "connect", url, "--org", client.org, "--poll", "86400")
        server.authorized.write_text(f"{connected['deploy_key']}\n")
        daemon.command("repo", "edit", url, "--org", client.org)
        until(lambda: _listed(daemon, url)["checked_at"], "the first look", 60)
        for _ in range(2):
            subprocess.run(("sh", "-ec", connected["hook_script"]), cwd=remote.bare, check=True)

        odd = "feature/$(id>pwned);'ü\"&x"
        remote.commit("Change", a="1")
        shown = pushed(remote, "main", f"HEAD:refs/heads/{odd}", "HEAD:refs/tags/v1", ":feature/old")
        assert f"remote: ci-daemon: {odd}: " in shown
        assert "remote: ci-daemon: feature/old: nothing was built: it was deleted" in shown
        assert "not told" not in shown
        built(client, 3)
        assert sorted(each["branch"] for each in builds(client)) == [odd, "main", "v1"]
        (delivery,) = [each for each in daemon.json("webhook", "list") if each["url"] == url]
        assert daemon.json("webhook", "show", delivery["id"])["body"].count("\n") == 4
        assert not (remote.bare / "pwned").exists()

        port = int(daemon.url.rpartition(":")[2])
        assert daemon.stop() == 0
        remote.commit("While it is away", a="2")
        assert "remote: ci-daemon was not told of this push" in pushed(remote, "main")
        with socket.create_server(("127.0.0.1", port)):
            last = remote.commit("While it hangs", a="3")
            begun = time.monotonic()
            assert "remote: ci-daemon was not told of this push" in pushed(remote, "main")
            assert time.monotonic() - begun < 15
        daemon.start()
        assert built(client, 4).record()["commit"] == last
        daemon.command("repo", "remove", url, "--org", client.org)


def pushed(repository: GitRepository, *refs: str) -> str:
    """Push; return what the pusher's terminal shows."""
    command = ("git", "push", "origin", *refs)
    return subprocess.run(command, cwd=repository.path, check=True, capture_output=True, text=True).stderr


def _listed(daemon: Daemon, url: str) -> Any:
    return next(each for each in daemon.json("repo", "list") if each["url"] == url)
