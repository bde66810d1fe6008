"""Forks of the disk of a failed job: runs at once, across a crash, before and after its command."""

from __future__ import annotations

import io
import tarfile
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.daemon import Build, Client, Daemon, Pipeline
from tests.e2e.pipelines import Graph, one
from tests.e2e.sources import archive
from tests.e2e.terminal import Terminal
from tests.state import run_sql
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATCH = """\
--- a/answer.sh
+++ b/answer.sh
@@ -1,2 +1,2 @@
 #!/bin/sh
-echo 41
+echo 42
"""


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {"CI_DAEMON_POOL_PARKED": "2", "CI_DAEMON_POOL_MAX_VMS": "4"}


@pytest.fixture(autouse=True)
def _no_vm_is_left(daemon: Daemon) -> Iterator[None]:
    yield
    daemon.end_vms()


def used(daemon: Daemon) -> list[str]:
    """Return the ids of the VMs that are not parked."""
    sql = "SELECT uuid FROM leases WHERE state <> 'ended' AND organization_id IS NOT NULL"
    return [vm for (vm,) in run_sql(daemon.state, sql)]


def run(build: Build, key: str, **body: Any) -> Any:
    job = build.jobs()[key]["id"]
    answered = build.client.request("POST", f"{build.path}/jobs/{job}/runs", json=body)
    assert answered.status_code == 200, answered.text
    return answered.json()


def test_two_forks_of_a_failure_and_one_before_it(daemon: Daemon, pipeline: Pipeline, client: Client):
    """They do not disturb each other or what is recorded, and the daemon is killed meanwhile."""
    client.request("PUT", "secrets/TOKEN", json={"value": "hunter2-and-more"})
    source = archive({"answer.sh": "#!/bin/sh\necho 41\n"})
    test = "echo tried >>tries; echo $TOKEN >/etc/copied; [ $(sh answer.sh) = 42 ]"
    graph = Graph().step("setup", "echo ready >/etc/ready")
    graph.step("test", test, builds_in="setup", runner_args={"secrets": ["TOKEN"]}, env={"COLOUR": "red"})
    build = pipeline.build(graph.ir(), source=source)
    assert build.finish()["state"] == "failed"
    recorded = build.jobs()["test"]
    daemon.kill()
    daemon.start()

    look = "cat tries /etc/ready; echo $COLOUR $CI_STEP_KEY ${TOKEN-none}; echo mine >>tries; wc -l <tries"
    with ThreadPoolExecutor(2) as people:
        seen = list(people.map(lambda _: run(build, "test", command=look), range(2)))
    for each in seen:
        assert (each["exit_code"], each["output"]) == (0, "tried\nready\nred test none\n2\n")
    assert run(build, "test", command="cat /etc/copied")["output"] == "***\n"

    assert run(build, "test", before=True)["exit_code"] == 1
    mended = run(build, "test", before=True, patch=PATCH, command=f"{test} && cat tries answer.sh")
    assert (mended["exit_code"], mended["output"]) == (0, "tried\n#!/bin/sh\necho 42\n")
    assert run(build, "test", command="exit 3", timeout_seconds=5)["exit_code"] == 3
    late = run(build, "test", command="echo begun; sleep 600", timeout_seconds=1)
    assert (late["timed_out"], late["output"]) == (True, "begun\n")

    assert build.jobs()["test"] == recorded
    assert used(daemon) == []
    entries = client.get(f"/api/v0/billing/transactions/{client.org}")["data"]
    assert [each["description"] for each in entries].count("demo #1 test, forked") == 7
    assert daemon.command("ledger", "verify").returncode == 0
    acts = [(each["action"], each["actor"]) for each in daemon.json("audit", "--limit", "100")]
    assert acts.count(("runOnFork", client.email)) == 7


def test_a_shell_is_a_fork_that_ends_with_it(daemon: Daemon, pipeline: Pipeline):
    build = pipeline.build(one("echo hello >made; exit 3"))
    assert build.finish()["state"] == "failed"
    named = f"{build.client.org}/{pipeline.slug}/{build.record()['number']}/only"
    looked = daemon.command("shell", named, "--command", "cat made; exit 4", check=False)
    assert (looked.returncode, looked.stdout) == (4, "hello\n")
    again = daemon.json("shell", named, "--before", "--command", "ls | wc -l")
    assert (again["exit_code"], again["output"].strip()) == (0, "0")
    refused = daemon.command("shell", named, check=False)
    assert (refused.returncode, "a shell needs a terminal" in refused.stderr) == (1, True)
    terminals = [Terminal(daemon, named, command="shell") for _ in range(2)]
    try:
        for terminal in terminals:
            terminal.shows("# ")
        assert len(used(daemon)) == 2
        for number, terminal in enumerate(terminals):
            terminal.type(f"echo {number} >>made; cat made | tr '\\n' -\r")
            terminal.shows(f"hello-{number}-")
            terminal.type("exit 5\r")
            assert terminal.process.wait(30) == 5
    finally:
        for terminal in terminals:
            terminal.close()
    until(lambda: used(daemon) == [], "the end of all forks")
    acts = [each["action"] for each in daemon.json("audit", "--limit", "100")]
    assert acts.count("openForkShell") == 2


MAKES = r"""
mkdir -p 'out/a b' out/empty && printf 'x\0y\377' >'out/a b/raw' && echo "$TOKEN" >out/token && chmod +x out/token
ln out/token out/twin && ln -s /etc/passwd out/link && ln -s / out/root && mkfifo out/pipe
: >"out/$(printf 'new\nline')"
truncate -s 1G out/sparse && mkdir many && (cd many && seq 1100 | xargs touch) && : >./-n && mv out/sparse .
exit 1
"""


def test_files_of_a_disk_are_listed_and_taken(daemon: Daemon, pipeline: Pipeline, client: Client, tmp_path: Path):
    client.request("PUT", "secrets/TOKEN", json={"value": "hunter2-and-more"})
    build = pipeline.build(Graph().step("test", MAKES, runner_args={"secrets": ["TOKEN"]}).ir())
    assert build.finish()["state"] == "failed"
    at = f"{build.path}/jobs/{build.jobs()['test']['id']}/files"

    def listed(**body: Any) -> Any:
        answered = client.request("POST", at, json=body)
        assert answered.status_code == 200, answered.text
        return answered.json()

    def refused(path: str, below: str = "/content") -> tuple[int, str]:
        answered = client.request("POST", f"{at}{below}", json={"path": path})
        return answered.status_code, answered.json()["error"]["message"]

    entries = {each["name"]: (each["kind"], each["size"]) for each in listed(path="out")["entries"]}
    assert entries == {
        "a b": ("folder", None),
        "empty": ("folder", None),
        "link": ("link", None),
        "new\nline": ("file", 0),
        "pipe": ("other", None),
        "root": ("link", None),
        "token": ("file", 17),
        "twin": ("file", 17),
    }
    assert {"-n", "many", "sparse"} <= {each["name"] for each in listed()["entries"]}
    assert "etc" in {each["name"] for each in listed(path="out/root")["entries"]}
    many = listed(path="many")
    assert (len(many["entries"]), many["cut"]) == (1000, True)
    assert listed(before=True)["entries"] == []

    raw = client.request("POST", f"{at}/content", json={"path": "out/a b/raw"})
    assert (raw.status_code, raw.content, raw.headers["Content-Type"]) == (200, b"x\0y\xff", "application/octet-stream")
    assert raw.headers["Content-Disposition"].startswith('attachment; filename="raw"')
    assert client.request("POST", f"{at}/content", json={"path": "out/token"}).content == b"***\n"
    folder = client.request("POST", f"{at}/content", json={"path": "out"})
    with tarfile.open(fileobj=io.BytesIO(folder.content)) as tar:
        assert {each.name: each.isreg() or each.islnk() for each in tar.getmembers()} == dict.fromkeys(
            ("out/a b/raw", "out/new\nline", "out/token", "out/twin"), True
        )
        assert {tar.extractfile(name).read() for name in ("out/token", "out/twin")} == {b"***\n"}  # type: ignore[union-attr]
    for path, why in (
        ("out/pipe", "it is no file or folder"),
        ("/dev/zero", "it is no file or folder"),
        ("none; echo x", "there is no such file or folder"),
        ("sparse", "it has more than 256 MiB"),
    ):
        status, message = refused(path)
        assert (status, why in message) == (422, True), message
    assert refused("out/token", "") == (422, "it is no file or folder")

    name = f"{client.org}/{pipeline.slug}/{build.record()['number']}"
    assert "new" in daemon.command("job", "files", name, "test", "out").stdout
    daemon.command("job", "get", name, "test", "/workspace/out/a b/raw", "--to", str(tmp_path / "raw"))
    assert (tmp_path / "raw").read_bytes() == b"x\0y\xff"
    again = daemon.command("job", "get", name, "test", "out", "--to", str(tmp_path / "raw"), check=False)
    assert (again.returncode, "is there already" in again.stderr) == (1, True)
    acts = [each["action"] for each in daemon.json("audit", "--limit", "100")]
    assert (acts.count("takeDiskFile"), acts.count("listDiskFiles")) >= (5, 6)
    assert used(daemon) == []
