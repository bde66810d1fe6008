"""Logins at registries in jobs that build images: where programs look, masked, gone with the job."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import bcrypt
import pytest

from storage import Build
from tests.actors.conftest import Host
from tests.vms.contract.test_containers import REGISTRY, programs

pytestmark = pytest.mark.sandbox

PASSWORD = "hunter2-and-a-half"
FILE = "/run/user/0/containers/auth.json"
PUSH = """
cp -a usr/local/. /usr/local; rm -rf usr; ldconfig
mkdir -p /etc/containers /ctx; cd /ctx
echo '{"default": [{"type": "insecureAcceptAnything"}]}' >/etc/containers/policy.json
echo "$USERS" >/tmp/users; echo "$REGISTRY" >/tmp/registry.yml
docker-registry serve /tmp/registry.yml >/tmp/registry.log 2>&1 &
grep -q "listening on" <(tail -n +1 -F /tmp/registry.log 2>/dev/null)
echo made >tool; printf 'FROM scratch\nCOPY tool /tool\n' >Containerfile
buildah build --quiet --tag localhost:5000/acme/tool:1 . >/dev/null
push="buildah push --quiet --tls-verify=false localhost:5000/acme/tool:1"
echo '{}' >/tmp/none; REGISTRY_AUTH_FILE=/tmp/none $push 2>&1 | grep -o "authentication required" | head -1
$push
ls /srv/docker/registry/v2/repositories/acme/tool/_manifests/tags
cat $XDG_RUNTIME_DIR/containers/auth.json
"""


def built(host: Host, run: str, *, then: str = "true", **fields: Any) -> Build:
    """Build a job that gets the login, and one that starts from its disk."""
    push = {"run": run, "containers": True, "registries": ["ghcr.io"]}
    jobs = {"push": push, "next": {"run": then, "from": "push", "containers": True}}
    return host.finish(host.build(json.dumps({"version": "1", "jobs": jobs}), **fields))


@pytest.fixture
def login(host: Host) -> None:
    host.storage.registry_logins.put(host.pipeline.organization_id, "ghcr.io", "ci", PASSWORD)


@pytest.mark.usefixtures("login")
def test_a_job_has_the_login_in_memory_and_its_log_does_not(host: Host):
    auth = base64.b64encode(f"ci:{PASSWORD}".encode()).decode()
    wanted = f"echo {auth[::-1]} | rev >/tmp/wanted; grep -cf /tmp/wanted {FILE}; rm /tmp/wanted"
    shown = (
        f"stat -c %a {FILE}; cat {FILE}; grep -o '{auth[:8]}[^\"]*' {FILE} | base64 -d; env | grep -c 'hunter' || true"
    )
    search = f"test ! -e {FILE}; ! grep -rlsF $(echo {PASSWORD[::-1]} | rev) /root /workspace /tmp /etc /var"
    build = built(host, f"{wanted}; {shown}", then=search)
    assert build.state == "passed", (host.log(build, "push"), host.log(build, "next"))
    lines = host.log(build, "push").decode().splitlines()
    assert lines == ["1", "600", '{"auths": {"ghcr.io": {"auth": "***"}}}ci:***0']


def test_buildah_pushes_with_the_login_of_the_organization(host: Host):
    """To a registry with a password, which is in no log and gone for the next job."""
    host.storage.registry_logins.put(host.pipeline.organization_id, "localhost:5000", "ci", PASSWORD)
    users = f"ci:{bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()}"
    push = {
        "run": PUSH,
        "containers": True,
        "registries": ["localhost:5000"],
        "memory": "2GB",
        "env": {"USERS": users, "REGISTRY": json.dumps(REGISTRY)},
    }
    search = f"test ! -e {FILE}; ! grep -rlsF $(echo {PASSWORD[::-1]} | rev) /root /workspace /tmp /etc /var /ctx"
    jobs = {"push": push, "next": {"run": search, "from": "push", "containers": True}}
    source = gzip.compress(programs(("buildah", "docker-registry")), compresslevel=1)
    build = host.finish(host.build(json.dumps({"version": "1", "jobs": jobs}), source_archive=source), 120)
    assert build.state == "passed", (host.log(build, "push"), host.log(build, "next"))
    lines = host.log(build, "push").decode().splitlines()
    assert lines[:2] == ["authentication required", "1"]

    assert json.loads(lines[2]) == {"auths": {"localhost:5000": {"auth": "***"}}}


@pytest.mark.usefixtures("login")
def test_a_fork_has_no_login(host: Host):
    build = built(host, f"test ! -e {FILE}", untrusted_origin="evil/demo#1", from_fork=True)
    assert build.state == "passed"
    said = b"this build is of a pull request from a fork, so it runs without logins at registries\n"
    assert said in host.log(build, "push")


def test_a_login_that_is_not_there_fails_the_job(host: Host):
    job = host.job(built(host, "true"), "push")
    assert (job.error_code, job.started_at) == ("secret_not_found", None)
    assert "has no login at the registry ghcr.io: have an admin run `ci-daemon registry login" in str(job.error_message)
