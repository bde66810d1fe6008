"""Identity tokens and provenance of a real build, as libraries of others verify them."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.clients.test_generated_clients import CLIENTS, NODE, NPM, run
from tests.e2e.daemon import Build, Client, Daemon
from tests.git_repository import GitRepository
from tests.ports import reserved_port
from tests.registry import MANIFEST, Registry, entry, layer, registry
from tests.waiting import until

pytestmark = pytest.mark.long

PIPELINE = """
name: web
on: {push: {branches: main}}
jobs:
  package:
    image: debian:12
    identity: {audience: sts.example.org}
    artifacts: manifest.json
    run: printf %s "$CI_IDENTITY_TOKEN" | rev
"""


@pytest.fixture(scope="module")
def settings() -> Iterator[dict[str, str]]:
    with reserved_port() as port:
        yield {"CI_DAEMON_POOL_PARKED": "0", "CI_DAEMON_HTTP_LISTEN": f"127.0.0.1:{port}"}


@pytest.fixture
def images(tmp_path: Path) -> Iterator[Registry]:
    with registry(tmp_path / "registry") as served:
        yield served


@pytest.fixture
def verified(tmp_path: Path) -> Callable[..., Any]:
    """Return what the verifiers of others say."""
    folder = tmp_path / "verifiers"
    shutil.copytree(CLIENTS / "verifiers", folder)
    run(folder, "node", NPM, "ci", path=NODE)
    return lambda *arguments: json.loads(run(folder, "node", "verify.mjs", *arguments, path=NODE))


def attach(repository: str, digest: str, envelope: bytes) -> None:
    """Attach a DSSE envelope to an image as cosign does: a manifest by a tag of the image's digest."""

    def blob(content: bytes, kind: str, **fields: object) -> dict[str, object]:
        name = f"sha256:{hashlib.sha256(content).hexdigest()}"
        place = httpx.post(f"{repository}/blobs/uploads/").headers["Location"]
        httpx.put(place, params={**httpx.URL(place).params, "digest": name}, content=content).raise_for_status()
        return {"mediaType": kind, "digest": name, "size": len(content), **fields}

    provenance = {"predicateType": "https://slsa.dev/provenance/v1", "dev.cosignproject.cosign/signature": ""}
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": blob(b"{}", "application/vnd.oci.image.config.v1+json"),
        "layers": [blob(envelope, "application/vnd.dsse.envelope.v1+json", annotations=provenance)],
    }
    tag = f"{repository}/manifests/{digest.replace(':', '-')}.att"
    httpx.put(tag, json=manifest, headers={"Content-Type": MANIFEST}).raise_for_status()


def test_others_verify_who_a_job_is_and_what_made_an_image(
    daemon: Daemon, client: Client, tmp_path: Path, images: Registry, verified: Callable[..., Any]
):
    """An image is proved by the provenance of its manifest, whose SHA-256 is the image's digest."""
    reference = images.add("acme/tools:1", layer(entry("tool", "a tool")))
    digest, stored = images.digest(reference), f"http://{images.address}/v2/acme/tools"
    manifest = httpx.get(f"{stored}/manifests/{digest}", headers={"Accept": MANIFEST}).text
    repository = GitRepository(tmp_path)
    commit = repository.commit("Begin", **{".hm__web.yml": PIPELINE, "manifest.json": manifest})
    daemon.command("repo", "connect", str(repository.bare), "--org", client.org, "--name", "acme/web", "--poll", "1")
    repository.push("main")
    pipelines = until(lambda: client.get("pipelines")["data"], "the pipeline of the push")
    build = Build(client, f"pipelines/{pipelines[0]['slug']}/builds/1")
    assert build.finish()["state"] == "passed", build.log("package")
    (artifact,) = client.get(f"{build.path}/artifacts")["data"]
    envelope = client.get(f"{build.path}/artifacts/{artifact['id']}/provenance")
    attach(stored, digest, json.dumps(envelope).encode())
    token = build.log("package").splitlines()[0][::-1]

    known = (daemon.url, "sts.example.org", token, stored, digest)
    found = verified(*known)
    claims, statement = found["claims"], found["statement"]
    assert (claims["ref"], claims["commit"], claims["build_number"]) == ("refs/heads/main", commit, 1)
    described = httpx.get(f"{daemon.url}/.well-known/openid-configuration").json()
    assert set(claims) <= set(described["claims_supported"])
    made = statement["predicate"]["buildDefinition"]
    assert made["externalParameters"]["commit"] == commit
    assert made["resolvedDependencies"][0] == {
        "uri": f"git+file://{repository.bare}@refs/heads/main",
        "digest": {"gitCommit": commit},
    }

    other = images.add("acme/tools:2", layer(entry("tool", "another tool")))
    attach(stored, images.digest(other), json.dumps(envelope).encode())
    elsewhere = verified(*known[:1], "sts.other.example", *known[2:4], images.digest(other))
    assert elsewhere["claims"]["refused"] == "ERR_JWT_CLAIM_VALIDATION_FAILED"
    assert elsewhere["statement"]["refused"] == "SUBJECT"
    payload = envelope["payload"]
    attach(stored, digest, json.dumps(envelope | {"payload": payload.replace(payload[40:44], "AAAA")}).encode())
    header, _, rest = token.partition(".")
    forged = verified(*known[:2], f"{header}.{rest[:40]}{'B' if rest[40] != 'B' else 'C'}{rest[41:]}", *known[3:])
    assert forged["claims"]["refused"] == "ERR_JWS_SIGNATURE_VERIFICATION_FAILED"
    assert forged["statement"]["refused"] == "SIGNATURE_ERROR"
