"""Builds that somebody asks for by a name, with inputs, of a real repository on the host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.daemon import Build, Client, Daemon
from tests.git_repository import GitRepository
from tests.waiting import until

PIPELINE = """
on:
  push: {branches: [main]}
  manual:
    inputs:
      target: {choice: [staging, production], default: staging}
      note: {text: true}
jobs:
  show:
    run: |
      echo "$CI_EVENT of $CI_BRANCH at $CI_COMMIT tag=$CI_TAG: number ${{ build.number }}"
      printf 'to %s, <%s> <%s>\\n' "$INPUT_TARGET" "$INPUT_NOTE" "$NOTE"
      cat a.txt
    env: {NOTE: "${{ inputs.note }}"}
  deploy:
    needs: show
    when: {inputs: {target: production}}
    run: echo deployed
"""
HOSTILE = '$(touch /tmp/x); "`id`'
NAME = "pipelines/acme-web-ci/builds"


@pytest.fixture
def repository(daemon: Daemon, client: Client, tmp_path: Path) -> Iterator[GitRepository]:
    """A repository with a pushed branch, a tag, and a pipeline that is known."""
    made = GitRepository(tmp_path)
    made.commit("Begin")
    made.push("main")
    daemon.command("repo", "connect", str(made.bare), "--org", client.org, "--poll", "1")
    until(lambda: daemon.json("repo", "show", str(made.bare), "--org", client.org)["checked_at"], "the first look")
    made.commit("First", **{".hm__ci.yml": PIPELINE, "a.txt": "first"})
    made.git("tag", "v1")
    made.push("main", "v1")
    until(lambda: client.request("GET", NAME).json().get("data"), "the build of the push", 60)
    yield made
    daemon.command("repo", "remove", str(made.bare), "--org", client.org)


def started(daemon: Daemon, client: Client, *options: str) -> Build:
    found = daemon.json("build", "start", f"{client.org}/acme-web-ci", *options)
    return Build(client, f"{NAME}/{found['number']}")


def test_a_branch_a_tag_and_a_commit_are_built_by_name(daemon: Daemon, client: Client, repository: GitRepository):
    first = repository.git("rev-parse", "HEAD")
    second = repository.commit("Second", **{"a.txt": "second"})
    repository.push("HEAD:topic")
    by_branch = started(daemon, client, "--ref", "topic", "--input", "target=production", "--input", f"note={HOSTILE}")
    by_tag = started(daemon, client, "--ref", "v1")
    by_commit = started(daemon, client, "--ref", second[:10])
    by_none = started(daemon, client)
    wrong = started(daemon, client, "--ref", "topik")
    unfit = started(daemon, client, "--input", "target=prod", "--input", "nte=x")
    expected = (
        (by_branch, (f"manual of topic at {second} tag=: number", "to production", HOSTILE, "second", "passed")),
        (by_tag, (f"manual of v1 at {first} tag=v1: number", "to staging", "", "first", "skipped")),
        (by_commit, (f"manual of topic at {second} tag=: number", "to staging", "", "second", "skipped")),
        (by_none, (f"manual of main at {first} tag=: number", "to staging", "", "first", "skipped")),
    )
    for build, (head, target, note, content, deploy) in expected:
        record = build.finish(120)
        assert record["state"] == "passed", record
        log = build.log("show")
        assert f"{head} {record['number']}" in log
        assert f"{target}, <{note}> <{note}>" in log
        assert content in log
        assert build.states()["deploy"] == deploy
    assert by_branch.record()["inputs"] == {"target": "production", "note": HOSTILE}
    failed = wrong.finish(60)
    assert (failed["state"], failed["error_message"]) == (
        "failed",
        'source fetch failed: there is no branch, tag or commit "topik": did you mean "topic"?',
    )
    refused = unfit.finish(60)
    assert refused["error_code"] == "inputs_invalid"
    assert refused["error_message"] == (
        'inputs.target: there is no choice "prod": there is "production", "staging";'
        ' inputs: unknown input "nte": did you mean "note"?'
    )
    again = Build(client, f"{NAME}/{daemon.json('build', 'rebuild', record_name(client, by_branch))['number']}")
    assert again.finish(120)["inputs"] == {"target": "production", "note": HOSTILE}
    assert again.states()["deploy"] == "passed"


def record_name(client: Client, build: Build) -> str:
    return f"{client.org}/acme-web-ci/{build.record()['number']}"


IN_PYTHON = """
from ci_daemon.language import build, job, pipeline

@pipeline("ci", on={"push": True})
def ci():
    told = f"{build.event} of {build.branch} number {build.number}: {list(build.changed_files)}"
    job("show", run="echo $TOLD", env={"TOLD": told})
"""


def test_a_file_in_python_is_told_of_its_push(daemon: Daemon, client: Client, repository: GitRepository):
    (repository.path / ".hm" / "ci.yml").unlink()
    repository.commit("In Python", **{".hm__ci.py": IN_PYTHON})
    repository.push("main")
    until(lambda: len(client.get(NAME)["data"]) > 1, "the build of the push", 60)
    build = Build(client, f"{NAME}/{client.get(NAME)['data'][0]['number']}")
    record = build.finish(120)
    assert record["state"] == "passed", record
    assert f"push of main number {record['number']}: ['.hm/ci.py', '.hm/ci.yml']" in build.log("show")
