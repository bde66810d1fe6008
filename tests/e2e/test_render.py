"""Builds from source alone, as a client sees them."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from actors.vms.sandbox.network import host_addresses
from tests.e2e.daemon import Build, Client, Daemon, Pipeline, until
from tests.e2e.pipelines import one
from tests.e2e.sources import HELLO, archive, pipeline_file, post, tree

EXAMPLES = Path(__file__).parent.parent / "data" / "render"
PINNED = "import os, time\ntime.time = lambda: 1767225600\nos.environ['HM_PIPELINE_ORG'] = 'default'\n"
"""A pipeline file that is loaded before the others, and has the DSL see the time and organization of the examples."""

SECONDS = 8
NEVER = "import threading\nthreading.Event().wait()\n"


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {
        "CI_DAEMON_POOL_WARM": "0",
        "CI_DAEMON_RENDER_TIMEOUT": str(SECONDS),
        "CI_DAEMON_SANDBOX_NETWORK_ALLOW": f"{_address()}/32",
    }


def rejected(pipeline: Pipeline, source: bytes | None, **fields: Any) -> str:
    """Return why a source is rendered to nothing, as the answer and the build say."""
    answered = post(pipeline, source, **fields)
    assert answered.status_code == 422, answered.text
    error = answered.json()["error"]
    assert error["code"] == "build_plan_rejected"
    record = pipeline.client.get(f"pipelines/{pipeline.slug}/builds/{error['build_number']}")
    assert (record["state"], record["error_code"]) == ("failed", "render_failed")
    message: str = record["error_message"]
    assert error["message"] == f"render_failed: {message}"
    return message


def rendered(pipeline: Pipeline, source: bytes | None, **fields: Any) -> Build:
    """Post a source that can be rendered."""
    answered = post(pipeline, source, **fields)
    assert answered.status_code == 201, answered.text
    return Build(pipeline.client, f"pipelines/{pipeline.slug}/builds/{answered.json()['number']}")


def render_log(build: Build) -> str:
    answered = build.client.request("GET", f"{build.path}/render-log")
    assert answered.status_code == 200, answered.text
    return answered.text


def test_a_source_alone_is_rendered_and_runs(pipeline: Pipeline):
    build = rendered(pipeline, pipeline_file("print('rendering')\n" + HELLO))
    assert build.finish()["state"] == "passed"
    (job,) = build.jobs()
    assert "hello from the source" in build.log(job)
    assert render_log(build) == "rendering\n"


def test_an_archive_that_was_rendered_before_is_not_rendered_again(pipeline: Pipeline):
    source = pipeline_file(HELLO + "\nimport time; print(time.time())")
    first, second = rendered(pipeline, source), rendered(pipeline, source)
    assert render_log(first) == render_log(second) != ""


@pytest.mark.parametrize("example", ["01-hello", "02-fanin", "03-cache", "04-toolchains", "05-multi"])
def test_the_examples_are_rendered_as_they_should_be(client: Client, example: str):
    source = tree(EXAMPLES / example, **{".hm/_first.py": PINNED})
    for declared in json.loads((EXAMPLES / example / "envelope.json").read_text())["pipelines"]:
        pipeline = client.pipeline(declared["slug"])
        build = rendered(pipeline, source)
        assert _stored_ir(client.daemon, pipeline, build) == declared["definition"]
        build.cancel()


def test_a_pipeline_of_another_name_in_its_repository_is_found_by_that(client: Client):
    pipeline = client.pipeline("Elsewhere named")
    source = tree(EXAMPLES / "05-multi")
    message = "render failed (exit 2): unknown pipeline 'elsewhere-named'; available: ci, nightly, deploy"
    assert rejected(pipeline, source) == message
    changed = client.request("PATCH", f"pipelines/{pipeline.slug}", json={"source_slug": "deploy"})
    assert changed.status_code == 200, changed.text
    build = rendered(pipeline, source)
    assert len(build.jobs()) == 1
    build.cancel()


FAULTS = {
    "nothing": ("", "the pipeline files registered no pipeline"),
    "exception": ("raise ValueError('no such luck')", "ValueError: no such luck"),
    "exit": ("import os; os._exit(0)", "render failed (exit 0): the pipeline files left no envelope"),
    "exit code": ("import sys; sys.exit(7)", "render failed (exit 7)"),
    "signal": ("import os; os.kill(os.getpid(), 9)", "render failed (exit 137)"),
    "endless": ("while True: pass", f"render timed out after {SECONDS} s"),
    "asleep, and deaf": (
        "import signal\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n" + NEVER,
        f"render timed out after {SECONDS} s",
    ),
    "output without end": (
        "import os\nwhile True: os.write(1, b'x' * 65536); os.write(2, b'y' * 65536)",
        f"render timed out after {SECONDS} s",
    ),
    "processes without end": ("import os\nwhile True: os.fork()", "render "),
    "a result written early": (
        "import os\nfor fd in range(3, 20):\n  try: os.write(fd, b'{}')\n  except OSError: pass\nos._exit(0)",
        "render failed (exit 0): the pipeline files left no envelope",
    ),
    "the loader's parent killed": ("import os; os.kill(os.getppid(), 9)", "render failed"),
    "an early result of nonsense": (
        "import os\nfor fd in range(3, 20):\n  try: os.write(fd, b'[' * 100000)\n  except OSError: pass\nos._exit(0)",
        "render failed (exit 0): the pipeline files left no envelope",
    ),
    "an endless result": (
        "import os\nfor fd in range(3, 20):\n try:\n  while True: os.write(fd, b' ' * 65536)\n except OSError: pass",
        "render timed out",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_rendered_says_why(pipeline: Pipeline, fault: str):
    text, expected = FAULTS[fault]
    assert expected in rejected(pipeline, pipeline_file(text))


HARMLESS = {
    "prints": """print('{"schema_version": "1", "pipelines": []}')""",
    "removes the loader": "import shutil, sys; shutil.rmtree(__import__('os').path.dirname(sys.path[0]))",
    "leaves a process behind": "import subprocess; subprocess.Popen(['sleep', '1000'])",
    "closes what it does not own": "import os\nfor fd in (0, 1, 2): os.close(fd)",
    "moves away": "import os; os.environ.clear()",
}


@pytest.mark.parametrize("oddity", HARMLESS)
def test_what_does_no_harm_is_rendered(pipeline: Pipeline, oddity: str):
    rendered(pipeline, pipeline_file(HELLO + HARMLESS[oddity])).cancel()


SNOOPING = """
import glob, os, re, socket
found = []
for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
    try: found.append(open(path, "rb").read())
    except OSError: pass
for top in ("/tmp", "/var/tmp", "/run", "/root", "/workspace"):
    for folder, _, names in os.walk(top):
        for name in names:
            try: found.append(open(os.path.join(folder, name), "rb").read(1 << 20))
            except OSError: pass
print("token" if re.search(rb"(?<![\\w-])[\\w-]{43}(?![\\w-])", b" ".join(found)) else "no token")
listening = []
for line in open("/proc/net/tcp").readlines()[1:]:
    if line.split()[3] == "0A": listening.append(line.split()[1])
print("listening", listening)
for target in TARGETS:
    try: socket.create_connection(target, timeout=1); print("reached", target)
    except OSError as error: print("closed")
"""


def test_nothing_of_the_service_is_in_reach_of_pipeline_files(daemon: Daemon, pipeline: Pipeline):
    port = int(daemon.url.rpartition(":")[2])
    targets = [(host, port) for host in ("127.0.0.1", "10.0.2.2")]
    build = rendered(pipeline, pipeline_file(f"TARGETS = {targets}\n{SNOOPING}\n{HELLO}"))
    assert render_log(build).splitlines() == ["no token", "listening []", "closed", "closed"]
    build.cancel()


def test_a_source_that_leads_out_of_itself_is_not_unpacked(pipeline: Pipeline):
    for files, why in (({"../up": "x"}, "leads out"), ({"/etc/passwd": "x"}, "leads out")):
        message = rejected(pipeline, archive(files))
        assert message.startswith("source fetch failed (exit 1): ")
        assert why in message
    assert "not a whole gzipped tar" in rejected(pipeline, b"no archive")


def test_a_source_with_another_hash_is_not_rendered(pipeline: Pipeline):
    message = rejected(pipeline, pipeline_file(HELLO), source_sha256="0" * 64)
    assert message.startswith("source fetch failed (exit 1): the source has the SHA-256")


def test_without_any_source_there_is_nothing_to_render(pipeline: Pipeline):
    assert rejected(pipeline, None) == "no source to render from: give pipeline_ir, source_b64 or source_url"


def test_a_source_from_elsewhere_is_fetched_by_the_vm_and_laid_into_jobs(pipeline: Pipeline):
    source = pipeline_file(HELLO)
    with _serving({"/moved": (302, b"/source.tar.gz"), "/source.tar.gz": (200, source)}) as server:
        digest = hashlib.sha256(source).hexdigest()
        build = rendered(pipeline, None, source_url=f"{server.url}/moved", source_sha256=digest)
        assert build.finish()["state"] == "passed"
        assert "hello from the source" in build.log(next(iter(build.jobs())))
        assert server.seen == [("/moved", None), ("/source.tar.gz", None)]
        message = rejected(pipeline, None, source_url=f"{server.url}/source.tar.gz", source_sha256="1" * 64)
        assert "SHA-256" in message
        message = rejected(pipeline, None, source_url=f"{server.url}/nowhere")
        assert message == "source fetch failed (exit 1): the server answered 404 Not Found"


def test_a_source_on_the_host_is_out_of_reach(daemon: Daemon, pipeline: Pipeline):
    message = rejected(pipeline, None, source_url=f"{daemon.url}/docs")
    assert message.startswith("source fetch failed (exit 1): ")


def test_a_repository_brings_its_pipelines_drops_them_and_takes_them_back(client: Client):
    def build(source: bytes, slug: str) -> httpx.Response:
        body = {"repo_name": "acme/demo", "source_slug": slug, "branch": "main", "commit": "0" * 40}
        return client.request("POST", "builds", json={**body, "source_b64": base64.b64encode(source).decode()})

    both = tree(EXAMPLES / "05-multi")
    assert build(both, "ci").json()["pipeline_slug"] == "ci"
    assert build(both, "deploy").json()["pipeline_slug"] == "deploy"
    assert build(both, "unheard-of").json()["error"]["code"] == "pipeline_not_found"
    record = client.get("pipelines/ci")
    assert (record["name"], record["repo_name"]) == ("CI", "acme/demo")

    without = tree(EXAMPLES / "05-multi", **{".hm/b_deploy.py": ""})
    assert build(without, "ci").status_code == 201
    assert [each["slug"] for each in client.get("pipelines")["data"]] == ["ci"]
    assert build(without, "deploy").json()["error"]["code"] == "pipeline_not_found"
    body = {"branch": "main", "commit": "0" * 40, "pipeline_ir": one("true")}
    assert client.request("POST", "pipelines/deploy/builds", json=body).status_code == 404

    assert build(both, "deploy").json()["number"] == 2
    assert [each["slug"] for each in client.get("pipelines")["data"]] == ["ci", "deploy"]


def test_a_render_can_be_canceled(pipeline: Pipeline):
    with _posting(pipeline, pipeline_file(NEVER)) as answers:
        build = _first_build(pipeline)
        assert build.cancel()["state"] == "canceled"
    (answer,) = answers
    assert (answer.status_code, answer.json()["state"]) == (201, "canceled")
    _no_vm_is_left(pipeline.client.daemon)


def test_a_render_is_begun_anew_by_the_next_daemon(daemon: Daemon, pipeline: Pipeline):
    source = pipeline_file("import time; time.sleep(3)\n" + HELLO)
    with _posting(pipeline, source):
        build = _first_build(pipeline)
        until(lambda: _renders_now(daemon), "the render's VM")
        daemon.kill()
    daemon.start()
    assert build.finish()["state"] == "passed"
    assert len(build.jobs()) == 1
    _no_vm_is_left(daemon)


def _renders_now(daemon: Daemon) -> bool | None:
    with sqlite3.connect(daemon.state / "ci-daemon.sqlite3") as database:
        query = "SELECT 1 FROM leases WHERE build_id IS NOT NULL AND state = 'active'"
        return True if database.execute(query).fetchone() else None


def _first_build(pipeline: Pipeline) -> Build:
    path = f"pipelines/{pipeline.slug}/builds"
    until(lambda: True if pipeline.client.get(path)["data"] else None, "the build")
    return Build(pipeline.client, f"{path}/1")


def _no_vm_is_left(daemon: Daemon) -> None:
    until(lambda: daemon.json("lease", "list") == [] or None, "the end of all VMs", 70)


@contextmanager
def _posting(pipeline: Pipeline, source: bytes) -> Iterator[list[Any]]:
    """Ask for a build while the block runs; yield where the answer will be, if there is one."""
    answers: list[Any] = []

    def ask() -> None:
        with suppress(httpx.TransportError):  # the daemon may be killed meanwhile
            answers.append(post(pipeline, source))

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield answers
    finally:
        thread.join(30)


def _address() -> str:
    """An address of this host's own, which VMs reach where the configuration says so."""
    return next(str(block.network_address) for block in host_addresses() if not block.is_loopback)


def _stored_ir(daemon: Daemon, pipeline: Pipeline, build: Build) -> Any:
    with sqlite3.connect(daemon.state / "ci-daemon.sqlite3") as database:
        query = """
            SELECT pipeline_ir FROM builds JOIN pipelines ON pipelines.id = pipeline_id
            JOIN organizations ON organizations.id = organization_id
            WHERE organizations.slug = ? AND pipelines.slug = ? AND number = ?
        """
        number = int(build.path.rpartition("/")[2])
        (text,) = database.execute(query, (pipeline.client.org, pipeline.slug, number)).fetchone()
    return json.loads(text)


class _Server(http.server.ThreadingHTTPServer):
    """Answers by path, and notes who brought what authorization."""

    def __init__(self, answers: dict[str, tuple[int, bytes]]) -> None:
        super().__init__((_address(), 0), _Handler)
        self.answers = answers
        self.seen: list[tuple[str, str | None]] = []
        self.url = f"http://{_address()}:{self.server_port}"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self.server.seen.append((self.path, self.headers.get("Authorization")))
        status, body = self.server.answers.get(self.path, (404, b""))
        self.send_response(status)
        if status == 302:
            self.send_header("Location", body.decode())
            body = b""
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def _serving(answers: dict[str, tuple[int, bytes]]) -> Iterator[_Server]:
    with _Server(answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
