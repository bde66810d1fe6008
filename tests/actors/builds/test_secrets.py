"""Secrets on their way through a job: into its environment, and into nothing that is kept."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

import pytest

from actors import vms
from actors.builds.attempt.environment import job_environment
from actors.vms import Connection, Images, ImageStore, VmError
from actors.vms.host import IdMap, run_mapped
from storage import SecretScope, VerifiedEvent
from tests.actors.conftest import Host
from tests.e2e.pipelines import one
from tests.waiting import until

pytestmark = pytest.mark.sandbox

TOKEN = "hunter2-and-a-half"
KEY = "-----BEGIN-----\nfirst line of it\nsecond line\n-----END-----\n"


def _set(host: Host, name: str, value: str, *, of_pipeline: bool = False) -> None:
    scope = SecretScope(host.pipeline.organization_id, host.pipeline.id if of_pipeline else None)
    host.storage.secrets.put(scope, name, value)


def _naming(*names: str, **options: object) -> dict[str, object]:
    return {"runner_args": {"secrets": list(names), **options}}


def test_a_command_has_its_secrets_and_its_log_has_none(host: Host):
    _set(host, "TOKEN", TOKEN)
    _set(host, "KEY", KEY)
    _set(host, "UNNAMED", "unnamed")
    shown = """
        echo "$TOKEN" | sha256sum; echo "[$TOKEN][$UNNAMED]"
        printf %s "user:$TOKEN" | base64
        printf %s "$KEY"; echo "$KEY" | base64
        for i in $(seq 1 ${#TOKEN}); do printf %s "${TOKEN:i-1:1}"; sleep 0.02; done; echo
        printf '\\xff\\xe2%s\\x82' "$TOKEN"
    """
    build = host.build(one(shown, env={"TOKEN": "of the pipeline"}, **_naming("TOKEN", "KEY")))
    assert host.finish(build).state == "passed"
    log = host.log(build)
    assert b"[***][]\n" in log
    assert log.startswith(hashlib.sha256(f"{TOKEN}\n".encode()).hexdigest().encode())
    assert log.endswith(b"\n***\n\xff\xe2***\x82")
    digits = base64.b64encode(KEY.encode())[:16], base64.b64encode(f"user:{TOKEN}".encode())[8:24]
    assert not [form for form in (TOKEN.encode(), b"first line", *digits) if form in log]


def test_secrets_override_the_builds_environment(host: Host):
    """The service's variables override both."""
    _set(host, "A", "organization's")
    _set(host, "A", "pipeline's", of_pipeline=True)
    build = host.build(one("true", env={"A": "step's", "B": "step's", "C": "step's"}, **_naming("A")))
    job = host.job(build)
    of_build = host.storage.builds.env(build.id)
    secrets = host.storage.job_secrets.resolve(build, job)
    env = job_environment(
        build, job, "http://127.0.0.1", of_jobs={}, of_image={}, of_needed={}, of_build=of_build, secrets=secrets
    )
    assert (env["A"], env["B"], env["CI"], env["HOME"]) == ("pipeline's", "step's", "true", "/root")
    host.finish(build)


def test_an_image_overrides_defaults_and_the_step_overrides_it(host: Host, tmp_path: Path):
    (tmp_path / "tools@1").mkdir()
    facts = {"name": "tools:1", "size": 0, "source": "", "created": "2026-01-02T03:04:05+00:00"}
    env = {"PATH": "/opt/go/bin:/bin", "A": "image's", "CI": "no"}
    (tmp_path / "tools@1" / "image.json").write_text(json.dumps({**facts, "environment": env}))
    build = host.build(one("true", env={"A": "step's"}))
    of_image = Images(ImageStore(tmp_path, IdMap.of_caller()), None, {}).environment("tools:1")
    env = job_environment(
        build, host.job(build), "http://127.0.0.1", of_jobs={}, of_image=of_image, of_needed={}, of_build={}, secrets={}
    )
    assert (env["PATH"], env["A"], env["CI"]) == ("/opt/go/bin:/bin", "step's", "true")
    host.finish(build)


def test_an_unknown_secret_fails_a_job_before_its_command(host: Host):
    """The job costs nothing."""
    build = host.build(one("echo ran", **_naming("TOKEN", retry={"limit": 3})))
    assert host.finish(build).state == "failed"
    job = host.job(build)
    organization = build.organization_slug
    assert (job.error_code, job.exit_code, job.attempt) == ("secret_not_found", None, 1)
    assert job.error_message == (
        f"no secret TOKEN is set for the pipeline demo or the organization {organization}: set it, or take it out of"
        " the step's runner_args.secrets"
    )
    assert host.log(build) == b""
    assert host.storage.ledger.balance(build.organization_id) == 0
    assert job.started_at is None


def test_a_limited_secret_fails_a_job_before_its_command(host: Host):
    scope = SecretScope(host.pipeline.organization_id)
    host.storage.secrets.put(scope, "TOKEN", TOKEN, {"branches": ["main"]})
    build = host.build(one("echo ran", **_naming("TOKEN", retry={"limit": 3})))
    assert host.finish(build).state == "failed"
    job = host.job(build)
    assert (job.error_code, job.exit_code, job.attempt, job.started_at) == ("secret_not_allowed", None, 1, None)
    assert job.error_message == (
        "the secret TOKEN is not for this job: it is limited to the branches main, and this build is of a source,"
        " pipeline or variables that a request brought, whatever branch it names; run the step in a build that it is"
        " for, or have an admin change its limits"
    )
    assert host.log(build) == b""
    of_main = {"verified_event": VerifiedEvent.PUSH, "verified_ref": "refs/heads/main"}
    pushed = host.build(one("echo ${#TOKEN}", **_naming("TOKEN")), **of_main)
    assert host.finish(pushed).state == "passed"
    assert host.log(pushed) == f"{len(TOKEN)}\n".encode()


def test_an_environment_too_large_for_linux_is_an_error(host: Host):
    names = [f"LARGE_{number}" for number in range(17)]
    for name in names:
        _set(host, name, "x" * 65_536)
    build = host.build(one("echo ran", **_naming(*names)))
    assert host.finish(build).state == "failed"
    job = host.job(build)
    assert job.error_code == "env_too_large"
    assert job.error_message is not None
    assert job.error_message.endswith("of at most 1,048,576: give it fewer or shorter secrets")
    fits = host.build(one("echo ${#LARGE_14}; /bin/true && echo started", **_naming(*names[:15])))
    assert host.finish(fits).state == "passed"
    assert host.log(fits) == b"65536\nstarted\n"


def test_the_next_process_masks_the_secrets_the_command_has(host: Host):
    """The secrets may have changed since."""
    _set(host, "TOKEN", TOKEN)
    halves = 'printf "begun %s" "${TOKEN:0:9}"; until [ -e /tmp/go ]; do sleep 0.02; done; echo "${TOKEN:9} $TOKEN"'
    build = host.build(one(halves, **_naming("TOKEN")))
    host.says(build, b"begun ")
    _set(host, "TOKEN", "rotated meanwhile")
    host.restart()
    host.storage.secrets.remove(SecretScope(host.pipeline.organization_id), "TOKEN")
    (vm,) = host.provider.list()
    _touch(host, vm, "/tmp/go")
    assert host.finish(build).state == "passed"
    assert host.log(build) == b"begun *** ***\n"


def _touch(host: Host, vm: str, path: str) -> None:
    with Connection(host.provider.connect(vm), host.clock) as connection:
        assert connection.run(vms.in_job(f"touch {path}"), timeout=60).exit_code == 0


def test_what_waited_comes_out_when_the_vm_is_lost(host: Host):
    _set(host, "TOKEN", TOKEN)
    build = host.build(one('printf "begun hunter2-and"; sleep 100', **_naming("TOKEN")))
    host.says(build, b"begun ")
    until(lambda: host.job(build).started_at, "the command's start on record")
    (vm,) = host.provider.list()
    host.provider.destroy(vm)
    host.says(build, b"begun hunter2-and")
    host.engine.cancel(build.id)
    host.finish(build)


def test_an_error_that_repeats_a_secret_is_masked(host: Host, monkeypatch: pytest.MonkeyPatch):
    _set(host, "TOKEN", TOKEN)

    def refused(_: Connection, spec: vms.CommandSpec) -> None:
        raise VmError(f"the VM cannot start a command: {dict(spec.env)}")

    monkeypatch.setattr(vms, "start", refused)
    build = host.build(one("true", **_naming("TOKEN")))
    assert host.finish(build).state == "failed"
    job = host.job(build)
    assert job.error_code == "lease_failed"
    assert job.error_message is not None
    assert job.error_message.startswith("the VM cannot start a command: ")
    assert "'TOKEN': '***'" in job.error_message
    assert TOKEN not in job.error_message


def test_a_kept_disk_has_no_secrets_or_environment_of_a_job(host: Host, tmp_path: Path):
    _set(host, "TOKEN", TOKEN)
    ir = one('echo "$TOKEN $KEY"; echo made >file', cache={"policy": "forever", "key": "k"}, **_naming("TOKEN"))
    build = host.build(ir, env={"KEY": "an-env-of-the-build"})
    assert host.finish(build).state == "passed"
    assert host.log(build) == b"*** an-env-of-the-build\n"
    (snapshot,) = host.provider.snapshots()
    layer = tmp_path / "state" / "sandbox" / "trees" / "snapshots" / snapshot
    found = ["sh", "-c", "grep -raEl 'hunter2|an-env-of|CI_JOB_ID=' .; grep -rl made ."]
    assert run_mapped(found, idmap=IdMap.of_caller(), cwd=layer).decode().split() == ["./upper/workspace/file"]
    for file in (tmp_path / "state").glob("ci-daemon.sqlite3*"):
        data = file.read_bytes()
        assert b"hunter2" not in data
        assert b"an-env-of" not in data
