"""Builds from source alone, as a client sees them."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.archive_server import serving
from tests.e2e.daemon import Build, Client, Daemon, Pipeline
from tests.e2e.pipelines import one
from tests.e2e.renders import (
    NEVER,
    another_pipeline,
    first_build,
    posting,
    rejected,
    render_log,
    rendered,
)
from tests.e2e.sources import HELLO, archive, pipeline_file, post, tree
from tests.host_server import own_address
from tests.state import run_sql
from tests.waiting import until

EXAMPLES = Path(__file__).parents[2] / "data" / "render"
PINNED = "import os, time\ntime.time = lambda: 1767225600\nos.environ['HM_PIPELINE_ORG'] = 'default'\n"
"""A pipeline file that is loaded first, and gives the DSL the time and organization of the examples."""


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {
        "CI_DAEMON_POOL_PARKED": "0",
        "CI_DAEMON_POOL_MAX_VMS": "1",
        "CI_DAEMON_RENDER_MAX_SOURCE_MB": "1",
        "CI_DAEMON_SANDBOX_NETWORK_ALLOW": f"{own_address()}/32",
    }


@pytest.fixture(scope="module")
def client(daemon: Daemon) -> Client:
    return Client.create(daemon, "ada@example.org")


@pytest.fixture
def pipeline(client: Client) -> Pipeline:
    return another_pipeline(client)


def test_a_source_alone_is_rendered_and_runs(pipeline: Pipeline):
    build = rendered(pipeline, pipeline_file("print('rendering')\n" + HELLO))
    assert build.finish()["state"] == "passed"
    (job,) = build.jobs()
    assert "hello from the source" in build.log(job)
    assert render_log(build) == "rendering\n"


CLEANED_UP = """
import harmont as hm

@hm.pipeline("demo")
def demo():
    there = hm.sh("echo in $PWD\\necho still in $PWD", cwd="sub dir", label="There")
    missing = hm.sh("echo in $PWD\\necho still in $PWD", cwd="nope", label="Missing")
    after = hm.sh("echo done", label="After")
    return (there, missing, hm.wait(continue_on_failure=True), hm.sh("echo cleaned", label="Clean"), hm.wait(), after)
"""


def test_a_missing_folder_fails_and_the_clean_up_runs(pipeline: Pipeline):
    build = rendered(pipeline, archive({".hm/pipeline.py": CLEANED_UP, "sub dir/file": ""}))
    assert build.finish()["state"] == "failed"
    assert build.states() == {"there": "passed", "missing": "failed", "clean": "passed", "after": "skipped"}
    assert build.log("there").splitlines()[-2:] == ["in /workspace/sub dir", "still in /workspace/sub dir"]
    assert "/workspace" not in build.log("missing")


def test_a_rendered_build_names_keys_without_effect(pipeline: Pipeline, daemon: Daemon):
    args = HELLO.replace("hm.sh(", "hm.scratch().sh(").replace(
        'label="greet"', 'label="greet", runner_args={"cpus": 1}'
    )
    build = rendered(pipeline, pipeline_file(args))
    named = 'step "greet": the key "runner_args.cpus" has no effect: did you mean "cpu"?'
    assert build.record()["warnings"] == [named]
    name = f"{pipeline.client.org}/{pipeline.slug}/1"
    assert daemon.json("build", "show", name)["warnings"] == [named]
    assert f"warning: {named}\n" in daemon.command("build", "show", name).stdout
    build.cancel()


def test_a_render_log_keeps_the_order_of_output_and_errors(pipeline: Pipeline):
    assert "ValueError" in rejected(pipeline, pipeline_file("print('printed first')\nraise ValueError"))
    log = render_log(first_build(pipeline))
    assert log.index("printed first") < log.index("Traceback")


def test_an_archive_is_rendered_only_once(pipeline: Pipeline):
    source = pipeline_file(HELLO + "\nimport time; print(time.time())")
    first, second = rendered(pipeline, source), rendered(pipeline, source)
    assert render_log(first) == render_log(second) != ""
    for build in (first, second):
        build.cancel()


def test_a_render_waits_for_no_job(pipeline: Pipeline):
    running = pipeline.build(one("echo runs; sleep 600"))
    running.says("runs")
    build = rendered(pipeline, pipeline_file(HELLO))
    (job,) = build.jobs().values()
    assert job["pending_reason"] == "waiting for a VM: host is full (1 of 1)"
    for each in (running, build):
        each.cancel()
    running.finish()


@pytest.mark.parametrize("example", ["01-hello", "02-fanin", "03-cache", "04-toolchains", "05-multi"])
def test_the_examples_are_rendered_as_they_should_be(client: Client, example: str):
    source = tree(EXAMPLES / example, **{".hm/_first.py": PINNED})
    for declared in json.loads((EXAMPLES / example / "envelope.json").read_text())["pipelines"]:
        with _named(client, declared["slug"]) as pipeline:
            build = rendered(pipeline, source)
            assert _stored_ir(client.daemon, pipeline, build) == _completed(example, declared["definition"])
            build.cancel()


def test_a_pipeline_is_found_by_its_name_in_the_repository(client: Client):
    pipeline = client.pipeline("Elsewhere named")
    source = tree(EXAMPLES / "05-multi")
    message = "render failed (exit 2): unknown pipeline 'elsewhere-named'; available: ci, nightly, deploy"
    assert rejected(pipeline, source) == message
    changed = client.request("PATCH", f"pipelines/{pipeline.slug}", json={"source_slug": "deploy"})
    assert changed.status_code == 200, changed.text
    build = rendered(pipeline, source)
    assert len(build.jobs()) == 1
    build.cancel()


def test_the_owner_sees_the_pipelines_of_a_tree(daemon: Daemon):
    example = EXAMPLES / "05-multi"
    definition = json.loads((example / "envelope.json").read_text())["pipelines"][2]["definition"]
    assert daemon.json("render", str(example), "--pipeline", "deploy") == definition
    refused = daemon.command("render", str(example), check=False)
    assert refused.returncode == 1
    assert "has several pipelines, ci, nightly, deploy: choose one with --pipeline" in refused.stderr


def test_the_owner_is_warned_of_what_a_tree_hides(daemon: Daemon, tmp_path: Path):
    (tmp_path / ".hm").mkdir()
    (tmp_path / ".hm" / "ci.py").write_text(CLEANED_UP)
    shown = daemon.command("render", str(tmp_path))
    assert len(json.loads(shown.stdout)["graph"]["nodes"]) == 4
    assert shown.stderr == ""
    (tmp_path / ".hm" / "ci.py").write_text(HELLO.replace("cat greeting", "cat greeting\\ntrue"))
    (warning,) = daemon.command("render", str(tmp_path)).stderr.splitlines()
    assert warning.startswith('warning: .hm/ci.py:6: step "greet": a line that fails does not fail the step')


FAULTS = {
    "nothing": ("", "the pipeline files registered no pipeline"),
    "exception": (
        "raise ValueError('no such luck')",
        """render failed (exit 1): Traceback (most recent call last):
  File "/workspace/.hm/pipeline.py", line 1, in <module>
    raise ValueError('no such luck')
ValueError: no such luck""",
    ),
    "exit": ("import os; os._exit(0)", "render failed (exit 0): the pipeline files left no envelope"),
    "exit code": ("import sys; sys.exit(7)", "render failed (exit 7)"),
    "signal": ("import os; os.kill(os.getpid(), 9)", "render failed (exit 137): it was killed, perhaps because"),
    "a result written early": (
        "import os\nfor fd in range(3, 20):\n  try: os.write(fd, b'{}')\n  except OSError: pass\nos._exit(0)",
        "render failed (exit 0): the pipeline files left no envelope",
    ),
    "the loader's parent killed": ("import os; os.kill(os.getppid(), 9)", "render failed"),
    "an early result of nonsense": (
        "import os\nfor fd in range(3, 20):\n  try: os.write(fd, b'[' * 100000)\n  except OSError: pass\nos._exit(0)",
        "render failed (exit 0): the pipeline files left no envelope",
    ),
}


def test_a_tree_of_typescript_alone_is_told_so(pipeline: Pipeline):
    message = rejected(pipeline, archive({".hm/ci.ts": "export default pipeline();", ".hm/readme.md": "x"}))
    assert message.startswith(
        "render failed (exit 1): .hm has pipelines in TypeScript or JavaScript alone, such as 'ci.ts'"
    )


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


def test_a_source_that_leads_out_of_itself_is_not_unpacked(pipeline: Pipeline):
    for files, why in (({"../up": "x"}, "leads out"), ({"/etc/passwd": "x"}, "leads out")):
        message = rejected(pipeline, archive(files))
        assert message.startswith("source fetch failed (exit 1): ")
        assert why in message
    assert "not a valid gzipped tar" in rejected(pipeline, b"no archive")


def test_a_source_with_another_hash_is_not_rendered(pipeline: Pipeline):
    message = rejected(pipeline, pipeline_file(HELLO), source_sha256="0" * 64)
    assert message.startswith("source fetch failed (exit 1): the source has the SHA-256")


def test_without_any_source_there_is_nothing_to_render(pipeline: Pipeline):
    assert rejected(pipeline, None) == "no source to render from: give pipeline_ir, source_b64 or source_url"


def test_a_remote_source_is_fetched_by_the_vm_and_laid_in_jobs(pipeline: Pipeline):
    source = pipeline_file(HELLO)
    with serving({"/moved": (302, b"/source.tar.gz"), "/source.tar.gz": (200, source)}) as server:
        digest = hashlib.sha256(source).hexdigest()
        build = rendered(pipeline, None, source_url=f"{server.url}/moved", source_sha256=digest)
        assert build.finish()["state"] == "passed"
        assert "hello from the source" in build.log(next(iter(build.jobs())))
        assert server.seen == [("/moved", None), ("/source.tar.gz", None)]
        message = rejected(pipeline, None, source_url=f"{server.url}/source.tar.gz", source_sha256="1" * 64)
        assert "SHA-256" in message


ELSEWHERE = {
    "/nowhere": ((404, b""), "the server answered 404 Not Found"),
    "/large": ((200, bytes(2**20 + 1)), "the source has more than 1048576 bytes"),
    "/round": ((302, b"/round"), "redirect"),
    "/to-a-file": ((302, b"file:///etc/passwd"), "not allowed"),
    "/to-the-host": ((302, b"http://10.0.2.2:22/"), ""),
    "/to-itself": ((302, b"http://127.0.0.1:22/"), "refused"),
}


def test_a_source_from_elsewhere_that_cannot_be_had_says_why(pipeline: Pipeline):
    with serving({path: answer for path, (answer, _) in ELSEWHERE.items()}) as server:
        for path, (_, why) in ELSEWHERE.items():
            message = rejected(pipeline, None, source_url=f"{server.url}{path}")
            assert message.startswith("source fetch failed (exit 1): "), path
            assert why in message, path


def test_a_source_on_the_host_is_out_of_reach(daemon: Daemon, pipeline: Pipeline):
    message = rejected(pipeline, None, source_url=f"{daemon.url}/docs/api")
    assert message.startswith("source fetch failed (exit 1): ")


def test_a_repository_adds_drops_and_restores_its_pipelines(daemon: Daemon):
    client = Client.create(daemon, "grace@example.org")

    def build(source: bytes, slug: str) -> httpx.Response:
        body = {"repo_name": "acme/demo", "source_slug": slug, "branch": "main", "commit": "0" * 40}
        return client.request("POST", "builds", json={**body, "source_b64": base64.b64encode(source).decode()})

    both = tree(EXAMPLES / "05-multi")
    assert build(both, "ci").json()["pipeline_slug"] == "acme-demo-ci"
    assert build(both, "deploy").json()["pipeline_slug"] == "acme-demo-deploy"
    assert build(both, "unheard-of").json()["error"]["code"] == "pipeline_not_found"
    record = client.get("pipelines/acme-demo-ci")
    assert (record["name"], record["repo_name"]) == ("CI", "acme/demo")

    without = tree(EXAMPLES / "05-multi", **{".hm/b_deploy.py": ""})
    assert build(without, "ci").status_code == 201
    assert [each["slug"] for each in client.get("pipelines")["data"]] == ["acme-demo-ci"]
    assert build(without, "deploy").json()["error"]["code"] == "pipeline_not_found"
    body = {"branch": "main", "commit": "0" * 40, "pipeline_ir": one("true")}
    assert client.request("POST", "pipelines/acme-demo-deploy/builds", json=body).status_code == 404

    assert build(both, "deploy").json()["number"] == 2
    assert [each["slug"] for each in client.get("pipelines")["data"]] == ["acme-demo-ci", "acme-demo-deploy"]
    for path in ("ci/builds/1", "ci/builds/2", "deploy/builds/1", "deploy/builds/2"):
        Build(client, f"pipelines/acme-demo-{path}").cancel()


def test_a_client_that_goes_away_stops_nothing(pipeline: Pipeline):
    with pytest.raises(httpx.ReadTimeout):
        post(pipeline, pipeline_file("import time; time.sleep(1)\n" + HELLO), patience=0.5)
    assert first_build(pipeline).finish()["state"] == "passed"


def test_a_render_can_be_canceled(pipeline: Pipeline):
    with posting(pipeline, pipeline_file(NEVER)) as answers:
        build = first_build(pipeline)
        assert build.cancel()["state"] == "canceled"
    (answer,) = answers
    assert (answer.status_code, answer.json()["state"]) == (201, "canceled")
    pipeline.client.daemon.wait_until_idle()


def test_a_render_is_begun_anew_by_the_next_daemon(daemon: Daemon, pipeline: Pipeline):
    source = pipeline_file("import time; time.sleep(1)\n" + HELLO)
    with posting(pipeline, source):
        build = first_build(pipeline)
        until(lambda: _renders_now(daemon), "the render's VM")
        daemon.kill()
    daemon.start()
    assert build.finish()["state"] == "passed"
    assert len(build.jobs()) == 1
    daemon.wait_until_idle()


def _renders_now(daemon: Daemon) -> bool:
    return bool(run_sql(daemon.state, "SELECT 1 FROM leases WHERE build_id IS NOT NULL AND state = 'active'"))


def _completed(example: str, definition: Any) -> Any:
    """Return an example as the DSL alone renders it, completed by its wait and its folder."""
    if example == "02-fanin":
        for edge in definition["graph"]["edges"]:
            edge.extend([{"continue_on_failure": True}] * (edge[2] == "depends_on"))
        docs = definition["graph"]["nodes"][3]["step"]
        assert docs["cmd"] == "cd docs && make docs"
        docs["cmd"] = "cd docs || exit; make docs"
    return definition


@contextmanager
def _named(client: Client, slug: str) -> Iterator[Pipeline]:
    """Make a pipeline with a slug that other tests use too, and delete it afterwards."""
    pipeline = client.pipeline(slug)
    yield pipeline
    until(lambda: client.request("DELETE", f"pipelines/{slug}").status_code == 204, "its end")


def _stored_ir(daemon: Daemon, pipeline: Pipeline, build: Build) -> Any:
    query = """
        SELECT pipeline_ir FROM builds JOIN pipelines ON pipelines.id = pipeline_id
        JOIN organizations ON organizations.id = organization_id
        WHERE organizations.slug = :org AND pipelines.slug = :slug AND number = :number ORDER BY builds.id DESC LIMIT 1
    """
    number = int(build.path.rpartition("/")[2])
    (row,) = run_sql(daemon.state, query, org=pipeline.client.org, slug=pipeline.slug, number=number)
    return json.loads(row[0])
