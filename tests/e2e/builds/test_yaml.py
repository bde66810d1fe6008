"""Pipelines in YAML, as a client sees them: from source alone, as a document, and with mistakes."""

from __future__ import annotations

import json

import pytest

from tests.e2e.daemon import Client, Daemon, Pipeline
from tests.e2e.renders import another_pipeline, rejected, rendered
from tests.e2e.sources import HELLO, archive

CI = """
name: CI
env: {GREETING: 3.10}
jobs:
  install: {run: echo installed > /installed}
  test:
    from: install
    matrix: {greeting: [hello, no]}
    env: {WORD: "${{ matrix.greeting }}"}
    run: |
      cat greeting /installed
      echo "$WORD ${{ matrix.greeting }} $GREETING" | tee words
    artifacts: words
  strict: {run: "false | true\\necho not reached", soft_fail: true}
  report: {needs: [test, strict], working_directory: sub dir, run: pwd}
"""


@pytest.fixture(scope="module")
def client(daemon: Daemon) -> Client:
    return Client.create(daemon, "ada@example.org")


@pytest.fixture
def pipeline(client: Client) -> Pipeline:
    return another_pipeline(client)


def test_a_file_is_read_without_a_vm_and_runs(pipeline: Pipeline):
    build = rendered(pipeline, archive({".hm/ci.yml": CI, "greeting": "from the source\n", "sub dir/x": ""}))
    assert build.finish()["state"] == "passed"
    states = {"install": "passed", "test-hello": "passed", "test-no": "passed", "strict": "failed", "report": "passed"}
    assert build.states() == states
    assert {"from the source", "installed", "no no 3.10"} <= set(build.log("test-no").splitlines())
    assert "not reached" not in build.log("strict")
    assert build.log("report").splitlines()[-1] == "/workspace/sub dir"


def test_files_in_yaml_and_python_lie_side_by_side(client: Client):
    source = archive({".hm/a.py": HELLO, ".hm/other.yml": "jobs: {only: {run: cat greeting}}", "greeting": "hello\n"})
    for slug, step in (("demo", "greet"), ("other", "only")):
        build = rendered(client.pipeline(slug), source)
        assert build.finish()["state"] == "passed"
        assert list(build.states()) == [step]


USED = """
inputs: {greeting: {choice: [hello, good day], default: hello}}
env: {GREETING: "${{ with.greeting }}"}
run: echo "$GREETING from ${{ with.greeting }}"
"""


def test_jobs_use_another_file(client: Client):
    python = """
from ci_daemon.language import job, pipeline

@pipeline("uses")
def uses():
    job("only", use="jobs/greet.yml", with_={"greeting": "good day"})
"""
    ci = "jobs: {one: {use: jobs/greet.yml}, two: {use: jobs/greet.yml, with: {greeting: good day}, needs: one}}"
    source = archive({".hm/ci.yml": ci, ".hm/jobs/greet.yml": USED, ".hm/uses.py": python})
    build = rendered(client.pipeline("ci"), source)
    assert build.finish()["state"] == "passed"
    assert "hello from hello" in build.log("one").splitlines()
    assert "good day from good day" in build.log("two").splitlines()
    build = rendered(client.pipeline("uses"), source)
    assert build.finish()["state"] == "passed"
    assert "good day from good day" in build.log("only").splitlines()


IN_PYTHON = """
from ci_daemon.language import build, job, pipeline

@pipeline("py")
def py():
    first = job("first", run="echo from the first > /made", env={"BRANCH": build.branch})
    first.then(f"on-{build.branch or 'nothing'}", run="cat /made")
"""


def test_python_in_the_same_words_knows_what_is_built(client: Client):
    source = archive({".hm/a.py": HELLO, ".hm/py.py": IN_PYTHON, "greeting": "hello\n"})
    pipeline = client.pipeline("py")
    for branch in ("main", "other"):
        build = rendered(pipeline, source, branch=branch)
        assert build.finish()["state"] == "passed"
        assert list(build.states()) == ["first", f"on-{branch}"]
        assert build.log(f"on-{branch}").splitlines()[-1] == "from the first"


def test_mistakes_of_python_have_their_lines(pipeline: Pipeline):
    wrong = f"{IN_PYTHON}    job('bad', imge='x', run='y')\n"
    message = rejected(pipeline, archive({".hm/py.py": wrong}))
    assert message.splitlines() == [
        '.hm/py.py:8:5: jobs.bad.imge: unknown key "imge": did you mean "image"?',
        "  8 |     job('bad', imge='x', run='y')",
        "    |     ^",
    ]


def test_all_mistakes_reject_the_build(pipeline: Pipeline):
    message = rejected(pipeline, archive({".hm/ci.yml": "jobs:\n  a: {rum: x}\n  b: {run: x, needs: c}\n"}))
    assert message.splitlines() == [
        '.hm/ci.yml:2:7: jobs.a.rum: unknown key "rum": did you mean "run"?',
        "  2 |   a: {rum: x}",
        "    |       ^",
        '.hm/ci.yml:3:15: jobs.b.needs[0]: unknown job "c": there is "a"',
        "  3 |   b: {run: x, needs: c}",
        "    |               ^",
    ]


WOODPECKER = """
when: {event: [push, manual]}
steps:
  - {name: install, image: "ubuntu:24.04", commands: ["echo installed > made"]}
  - {name: test, image: "ubuntu:24.04", commands: ["cat made greeting", "echo $CI_PIPELINE_EVENT $CI_COMMIT_BRANCH"]}
"""


def test_a_file_of_woodpecker_runs_as_it_is(pipeline: Pipeline):
    build = rendered(pipeline, archive({".woodpecker.yml": WOODPECKER, "greeting": "from the source\n"}))
    assert build.finish()["state"] == "passed"
    assert build.states() == {"install": "passed", "test": "passed"}
    assert build.log("test").splitlines()[-3:] == ["installed", "from the source", "manual main"]


def test_what_woodpeckers_file_loses_rejects_the_build(pipeline: Pipeline):
    lost = f"{WOODPECKER}  - {{name: keep, image: plugins/docker, settings: {{repo: x}}}}\n"
    message = rejected(pipeline, archive({".woodpecker.yml": lost}))
    lost = "keep.image: the whole job is left out: the plugin docker has rights on its host"
    assert message.startswith(f".woodpecker.yml:6:1: {lost}")


def test_a_document_is_a_plan(pipeline: Pipeline):
    document = {
        "version": "1",
        "jobs": {"a": {"run": "echo a", "needs": ["b"]}, "b": {"run": "echo $X", "env": {"X": "y"}}},
    }
    build = pipeline.build(json.dumps(document))
    assert build.finish()["state"] == "passed"
    assert build.log("b") == "y\n"


CONDITIONS = """
jobs:
  deploy: {run: exit 1, when: {tag: "v*"}}
  on_its_disk: {from: deploy, run: exit 1}
  report: {needs: [deploy, on_its_disk], run: echo $CI_EVENT}
"""


def test_a_job_whose_condition_does_not_hold_is_skipped(pipeline: Pipeline):
    build = rendered(pipeline, archive({".hm/ci.yml": CONDITIONS}))
    assert build.finish()["state"] == "passed"
    assert build.states() == {"deploy": "skipped", "on_its_disk": "skipped", "report": "passed"}
    deploy, above, _ = build.jobs().values()
    assert (deploy["error_code"], deploy["error_message"]) == (
        "condition_not_met",
        'the tag is none, and it runs for "v*"',
    )
    assert above["error_message"] == 'it starts from the disk of "deploy", which is skipped'
    assert build.log("report") == "manual\n"


AFTER_FAILURES = """
jobs:
  good: {run: "true"}
  bad: {run: 'test "$CI_ATTEMPT" = 2'}
  quiet: {needs: good, when: {status: failed}, run: exit 1}
  on_its_disk: {from: quiet, run: exit 1}
  beside: {needs: [quiet, on_its_disk], run: echo beside}
  alarm: {needs: [good, bad], when: {status: failed}, run: echo alarm}
  deploy: {needs: bad, run: echo deploy}
  told: {from: bad, needs: deploy, when: {status: failed}, run: echo told}
"""


def test_a_job_may_run_only_after_a_failure(pipeline: Pipeline):
    build = rendered(pipeline, archive({".hm/ci.yml": AFTER_FAILURES}))
    assert build.finish()["state"] == "failed"
    skipped = dict.fromkeys(("quiet", "on_its_disk", "deploy"), "skipped")
    passed = dict.fromkeys(("good", "beside", "alarm", "told"), "passed")
    assert build.states() == {"bad": "failed", **skipped, **passed}
    jobs = build.jobs()
    assert {jobs[key]["error_code"] for key in ("quiet", "on_its_disk")} == {"nothing_failed"}
    assert jobs["quiet"]["error_message"] == "it runs after a failure, and nothing that it needs has failed"
    assert jobs["on_its_disk"]["error_message"] == 'it starts from the disk of "quiet", which is skipped'


def test_a_build_without_a_job_to_run_passes(pipeline: Pipeline):
    build = rendered(pipeline, archive({".hm/ci.yml": "jobs: {a: {run: exit 1, when: {event: tag}}}"}))
    assert build.finish()["state"] == "passed"
    assert build.states() == {"a": "skipped"}
