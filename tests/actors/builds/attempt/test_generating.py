"""Jobs that jobs generate: the file in the VM, its mistakes, and the build that they join."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from actors.builds.attempt.finalizing import Finalizer
from actors.builds.attempt.generating import JobGeneration
from actors.builds.attempt.state import AttemptState
from actors.builds.outcome import AttemptResult
from storage import Build, JobState, SecretScope
from tests.actors.conftest import Host
from tests.waiting import until

pytestmark = pytest.mark.sandbox


def ir_of(jobs: dict[str, Any]) -> str:
    return json.dumps({"version": "1", "jobs": jobs})


def built(host: Host, jobs: dict[str, Any], **fields: Any) -> Build:
    """Run a build of these jobs to its end."""
    return host.finish(host.build(ir_of(jobs), **fields))


def states(host: Host, build: Build) -> dict[str, str]:
    return {job.step_key: str(job.state) for job in host.storage.jobs.of_build(build.id)}


def writing(jobs: dict[str, Any], then: str = "") -> dict[str, Any]:
    """Return a job that generates these jobs."""
    return {"run": f"cat >more.json <<'END'\n{json.dumps({'jobs': jobs})}\nEND\n{then}", "generates": "./more.json"}


YAML = """cat >more.yml <<'END'
jobs:
  one:
    from: maker
    run: cat left
  two:
    needs: [one, first]
    run: echo two
END
echo made >left; echo "V=1" >>"$CI_OUTPUT"
"""


def test_jobs_of_a_file_join_the_build(host: Host):
    build = built(host, {"first": {"run": "true"}, "maker": {"needs": "first", "run": YAML, "generates": "more.yml"}})
    assert (build.state, states(host, build)) == ("passed", dict.fromkeys(["first", "maker", "one", "two"], "passed"))
    assert host.log(build, "one") == b"made\n"
    first, maker, one, two = host.storage.jobs.of_build(build.id)
    assert [each.generated_by for each in (first, maker, one, two)] == [None, None, maker.uuid, maker.uuid]
    assert (one.depends_on, two.depends_on) == ((maker.uuid,), (first.uuid, one.uuid))
    assert host.log(build, "maker") == b"outputs: V\ngenerated jobs: one, two\n"


def test_generated_jobs_generate_jobs_up_to_a_depth(host: Host):
    deepest = {"d": writing({"e": {"run": "true"}})}
    build = built(host, {"a": writing({"b": writing({"c": writing(deepest)})})})
    assert states(host, build) == {"a": "passed", "b": "passed", "c": "failed"}
    assert "jobs.d.generates: this is as deep" in (host.job(build, "c").error_message or "")
    build = built(host, {"a": writing({"b": writing({"c": writing({"d": {"run": "true"}})})})})
    assert states(host, build) == dict.fromkeys("abcd", "passed")


@pytest.mark.parametrize(
    ("run", "why"),
    [
        ("true", "expected a file that the command has written, and there is no such file"),
        ("mkdir more.yml", "and there is a folder"),
        ("ln -s /etc/passwd more.yml", "and there is a link"),
        ("mkfifo more.yml", "and there is no file of the usual kind"),
        ("head -c 262145 /dev/zero >more.yml", "the file has 262,145 bytes of at most 262,144"),
        (r"printf 'jobs:\n \377' >more.yml", "more.yml:2:1: the file is not UTF-8"),
        ("echo 'jobs: {a: {rum: x}}' >more.yml", 'more.yml:1:12: jobs.a.rum: unknown key "rum": did you mean "run"?'),
    ],
)
def test_a_file_that_declares_no_jobs_fails_its_maker(host: Host, run: str, why: str):
    build = built(host, {"maker": {"run": run, "generates": "more.yml"}, "after": {"needs": "maker", "run": "true"}})
    job = host.job(build, "maker")
    assert (build.state, states(host, build)) == ("failed", {"maker": "failed", "after": "skipped"})
    assert (job.error_code, job.exit_code) == ("generated_invalid", 0)
    assert why in (job.error_message or "")
    assert why in host.log(build, "maker").decode()


def test_a_soft_failure_covers_an_invalid_file(host: Host):
    build = built(host, {"maker": {"run": "true", "generates": "no.yml", "soft_fail": True}})
    assert (build.state, host.job(build, "maker").soft_failed) == ("passed", True)


def test_a_job_that_fails_generates_nothing(host: Host):
    build = built(host, {"maker": writing({"a": {"run": "true"}}, then="exit 3")})
    assert states(host, build) == {"maker": "failed"}


def test_a_generated_job_that_fails_fails_the_build(host: Host):
    host.storage.pipelines.update(host.pipeline.id, fail_fast=True)
    slow = {"run": "echo slow; exec sleep 600"}
    build = host.build(ir_of({"maker": writing({"bad": {"needs": "maker", "run": "false"}}), "other": slow}))
    assert host.finish(build).state == "failed"
    assert states(host, build) == {"maker": "passed", "other": "canceled", "bad": "failed"}


def test_what_runs_after_a_failure_may_generate_jobs(host: Host):
    """They depend on it, and so fail-fast spares them as it spares their maker."""
    host.storage.pipelines.update(host.pipeline.id, fail_fast=True)
    maker = writing({"a": {"run": "true"}}) | {"needs": "bad", "when": {"status": "always"}}
    build = built(host, {"bad": {"run": "false"}, "maker": maker})
    assert (build.state, states(host, build)) == ("failed", {"bad": "failed", "maker": "passed", "a": "passed"})


def test_a_cancel_before_the_end_keeps_jobs_out(host: Host):
    build = host.build(ir_of({"maker": writing({"a": {"run": "true"}}, then="echo wait; exec sleep 600")}))
    host.says(build, b"wait", "maker")
    host.storage.builds.request_cancel(build.id)
    host.engine.cancel(build.id)
    assert host.finish(build).state == "canceled"
    assert states(host, build) == {"maker": "canceled"}


def test_a_cancel_that_comes_with_the_end_ends_jobs_that_join(host: Host, monkeypatch: pytest.MonkeyPatch):
    """The jobs are in the storage, and the supervisor knows of the cancel first."""
    record = Finalizer.record

    def recorded(self: Finalizer, state: JobState, target: JobState, result: AttemptResult) -> bool:
        found = record(self, state, target, result)
        if target is JobState.PASSED:
            host.engine.cancel(build.id)
        return found

    monkeypatch.setattr(Finalizer, "record", recorded)
    build = host.build(ir_of({"maker": writing({"a": {"run": "exec sleep 600"}, "b": {"needs": "a", "run": "true"}})}))
    assert host.finish(build).state == "canceled"
    assert states(host, build) == {"maker": "passed", "a": "canceled", "b": "canceled"}


def test_two_makers_may_not_generate_one_name(host: Host):
    both = {"same": {"run": "true"}}
    build = built(host, {"first": writing(both), "second": writing(both)})
    found = states(host, build)
    assert sorted(found.values()) == ["failed", "passed", "passed"]
    failed = next(key for key, state in found.items() if state == "failed")
    assert 'the build has a job "same" already' in (host.job(build, failed).error_message or "")


def test_a_plan_that_others_overtook_is_made_anew(host: Host, monkeypatch: pytest.MonkeyPatch):
    """Both have read their files before either ends."""
    read, seen = JobGeneration.read, []

    def after_both(self: JobGeneration, *arguments: Any) -> Any:
        found = read(self, *arguments)
        seen.append(self)
        until(lambda: len(seen) == 2, "both files")
        return found

    monkeypatch.setattr(JobGeneration, "read", after_both)
    build = built(host, {name: writing({f"{name}-{n}": {"run": "true"} for n in "ab"}) for name in ("x", "y")})
    assert states(host, build) == dict.fromkeys(["x", "y", "x-a", "x-b", "y-a", "y-b"], "passed")
    jobs = host.storage.jobs.of_build(build.id)
    assert [job.position for job in jobs] == list(range(6))
    makers = {job.uuid: job.step_key for job in jobs}
    assert all(makers[job.depends_on[0]] == job.step_key[0] for job in jobs[2:])


def test_a_maker_that_runs_again_generates_no_more(host: Host):
    """Its disk is gone with the build, and a job that is retried starts from it."""
    failing = {"from": "maker", "run": "test -e /now"}
    build = built(host, {"maker": writing({"a": {"run": "true"}, "b": failing})})
    assert states(host, build) == {"maker": "passed", "a": "passed", "b": "failed"}
    host.engine.jobs_added(host.retry(build).id)
    host.finish(build)
    assert states(host, build) == {"maker": "passed", "a": "passed", "b": "failed"}
    assert host.job(build, "maker").attempt == 2
    log = host.storage.logs.reader(build.uuid, host.job(build, "maker").uuid)
    assert b"its file is not read again" in log.read(0, log.size())


def test_a_maker_that_failed_may_generate_in_a_retry(host: Host):
    maker = writing({"a": {"run": "true"}}, then='[ "$CI_ATTEMPT" = 2 ]')
    build = built(host, {"maker": maker})
    assert states(host, build) == {"maker": "failed"}
    host.engine.jobs_added(host.retry(build).id)
    assert host.finish(build).state == "passed"
    assert states(host, build) == {"maker": "passed", "a": "passed"}


def test_a_file_with_a_secret_is_refused(host: Host):
    host.storage.secrets.put(SecretScope(host.pipeline.organization_id), "TOKEN", "hunter2hunter2")
    maker = {"run": 'echo "jobs: {a: {run: echo $TOKEN}}" >more.yml', "generates": "more.yml", "secrets": "TOKEN"}
    build = built(host, {"maker": maker})
    job = host.job(build, "maker")
    assert job.error_code == "generated_invalid"
    assert "the file has a secret in it" in (job.error_message or "")


def test_generated_jobs_of_a_fork_get_no_secrets(host: Host):
    """The fork changes what is generated, and names a secret there."""
    host.storage.secrets.put(SecretScope(host.pipeline.organization_id), "TOKEN", "hunter2hunter2")
    generated = {"a": {"run": 'echo "<$TOKEN>"', "secrets": "TOKEN", "cache": True, "concurrency": {"group": "g"}}}
    build = built(host, {"maker": writing(generated)})
    assert b"<***>" in host.log(build, "a")
    build = built(host, {"maker": writing(generated)}, untrusted_origin="7", from_fork=True)
    assert b"<>" in host.log(build, "a")
    job = host.job(build, "a")
    assert (job.cache_key or "").startswith("7:")
    assert job.lock != "g"


def test_jobs_wait_for_a_process_that_knows_of_them(host: Host, monkeypatch: pytest.MonkeyPatch):
    """The end of the maker and its jobs are stored, and the process ends before it says so."""
    change, stored = AttemptState.change, threading.Event()

    def unsaid(self: AttemptState, state: JobState, *, soft_failed: bool = False) -> bool:
        if state is JobState.PASSED:
            stored.set()
            return True
        return change(self, state, soft_failed=soft_failed)

    monkeypatch.setattr(AttemptState, "change", unsaid)
    build = host.build(ir_of({"maker": writing({"a": {"from": "maker", "run": "cat more.json"}})}))
    assert stored.wait(60)
    monkeypatch.undo()
    host.restart()
    assert host.finish(build).state == "passed"
    assert states(host, build) == {"maker": "passed", "a": "passed"}
