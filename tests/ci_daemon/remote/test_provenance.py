"""`ci-daemon artifact verify`, and what a verifier by others makes of an envelope."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from api.builds.provenance import signed
from ci_daemon.command import main
from ci_daemon.remote.provenance import Expected, Made, NotVerified, keys_of, verified
from storage import NewBuild, Pipeline, VerifiedEvent
from tests.ci_daemon.remote.conftest import Printed, RunJson
from tests.ci_daemon.scripted_service import ScriptedService
from tests.records import finish, new_job, started

KEY = rsa.generate_private_key(65537, 2048)
OTHER = rsa.generate_private_key(65537, 2048)
DIGEST = "ab" * 32
STATEMENT: dict[str, Any] = {
    "_type": "https://in-toto.io/Statement/v1",
    "subject": [{"name": "dist/app", "digest": {"sha256": DIGEST}}],
    "predicateType": "https://slsa.dev/provenance/v1",
    "predicate": {
        "buildDefinition": {
            "buildType": "urn:ci-daemon:job:v1",
            "externalParameters": {
                "organization": "acme",
                "pipeline": "web",
                "job": "make",
                "event": "push",
                "inputs": {},
                "repository": "https://git.example/acme/web",
                "ref": "refs/heads/main",
                "commit": "c0ffee",
            },
            "internalParameters": {"runner": "sandbox", "image": "debian:12", "fork": False},
            "resolvedDependencies": [],
        },
        "runDetails": {
            "builder": {"id": "https://ci.example.org"},
            "metadata": {"invocationId": "https://ci.example.org/1", "startedOn": None, "finishedOn": None},
        },
    },
}
ALL = Expected("https://ci.example.org/", "https://git.example/acme/web", "main", "acme/web", "c0ffee")


def envelope(statement: Any = None, key: rsa.RSAPrivateKey = KEY) -> dict[str, Any]:
    payload, name, signature = signed(
        STATEMENT if statement is None else statement, lambda message: ("a", key.sign(message, PKCS1v15(), SHA256()))
    )
    return {
        "payloadType": "application/vnd.in-toto+json",
        "payload": payload,
        "signatures": [{"keyid": name, "sig": signature}],
    }


def checked(document: object, expected: Expected = ALL, digest: str = DIGEST) -> Made:
    return verified(json.dumps(document).encode(), [KEY.public_key()], digest, expected)


def paths(value: object, *above: Any) -> list[tuple[Any, ...]]:
    """Return the paths of all texts and flags in a document."""
    if isinstance(value, dict):
        return [path for name, each in value.items() for path in paths(each, *above, name)]
    if isinstance(value, list):
        return [path for index, each in enumerate(value) for path in paths(each, *above, index)]
    return [above]


def test_what_is_as_expected_is_verified():
    made = checked(envelope())
    assert (made.ref, made.commit, made.pipeline, made.job) == ("refs/heads/main", "c0ffee", "acme/web", "make")


def test_a_verifier_of_the_standard_takes_it():
    """As DSSE and in-toto describe it, without a line of this service."""
    document = envelope()
    payload = base64.b64decode(document["payload"])
    kind = document["payloadType"]
    message = f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload
    KEY.public_key().verify(base64.b64decode(document["signatures"][0]["sig"]), message, PKCS1v15(), SHA256())
    assert json.loads(payload) == STATEMENT


@pytest.mark.parametrize("path", paths(STATEMENT), ids=str)
def test_a_change_of_any_field_is_refused(path: tuple[Any, ...]):
    statement = json.loads(json.dumps(STATEMENT))
    at = statement
    for each in path[:-1]:
        at = at[each]
    at[path[-1]] = "another"
    forged = {**envelope(), "payload": base64.b64encode(json.dumps(statement).encode()).decode()}
    with pytest.raises(NotVerified, match="no key that is trusted here has signed"):
        checked(forged)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda it: it | {"payloadType": "text/plain"}, "no key"),
        (lambda it: it | {"signatures": []}, "no key"),
        (lambda it: it | {"signatures": [{"keyid": "a", "sig": "AAAA"}]}, "no key"),
        (lambda it: it | {"signatures": [{"keyid": "a", "sig": "AAAA"}] * 16 + it["signatures"]}, "no key"),
        (lambda it: it | {"signatures": [{"sig": "?"}]}, "no DSSE envelope"),
        (lambda it: it | {"payload": 1}, "no DSSE envelope"),
        (lambda _: [], "no DSSE envelope"),
        (lambda _: envelope(key=OTHER), "no key"),
        (lambda _: envelope({**STATEMENT, "predicateType": "https://slsa.dev/provenance/v0.2"}), "of a kind"),
        (lambda _: envelope({**STATEMENT, "predicate": []}), "not a statement of this service"),
        (lambda _: envelope([]), "not a statement of this service"),
    ],
)
def test_another_envelope_is_refused(change: Callable[[Any], object], reason: str):
    with pytest.raises(NotVerified, match=reason):
        checked(change(envelope()))


@pytest.mark.parametrize(
    ("expected", "reason"),
    [
        (Expected(builder="https://other.example"), "the builder is https://ci.example.org, not"),
        (Expected(repository="https://git.example/eve/web"), "the repository is"),
        (Expected(ref="refs/tags/main"), "the ref is refs/heads/main, not refs/tags/main"),
        (Expected(pipeline="eve/web"), "the pipeline is acme/web, not eve/web"),
        (Expected(commit="bad"), "the commit is c0ffee, not bad"),
    ],
)
def test_another_origin_is_refused(expected: Expected, reason: str):
    with pytest.raises(NotVerified, match=reason):
        checked(envelope(), expected)


def test_another_file_is_refused():
    with pytest.raises(NotVerified, match="not the one that the provenance is of"):
        checked(envelope(), digest="cd" * 32)


@pytest.mark.parametrize("expected", [Expected(ref="main"), Expected(repository="https://git.example/acme/web")])
def test_an_unverified_source_meets_no_expectation(expected: Expected):
    statement = json.loads(json.dumps(STATEMENT))
    for each in ("repository", "ref", "commit"):
        del statement["predicate"]["buildDefinition"]["externalParameters"][each]
    assert checked(envelope(statement), Expected(pipeline="acme/web")).ref is None
    with pytest.raises(NotVerified, match="did not verify the"):
        checked(envelope(statement), expected)


def test_keys_are_a_set_or_pem():
    pem = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    assert keys_of(pem) == [KEY.public_key()]
    small = rsa.generate_private_key(65537, 1024).public_key()
    for bad in (b"", b"{}", b"[]", b'{"keys": []}', b'{"keys": [{"kty": "oct"}]}', b"-----BEGIN X"):
        with pytest.raises(NotVerified):
            keys_of(bad)
    with pytest.raises(NotVerified, match="2048 bits"):
        keys_of(small.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


def test_a_file_of_a_server_is_verified(
    service: ScriptedService,
    pipeline: Pipeline,
    tmp_path: Path,
    printed: Printed,
    run_json: RunJson,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    """By the keys of the service, and by a file of them; refused once it was changed."""
    storage = service.storage
    of_main = {"verified_event": VerifiedEvent.PUSH, "verified_ref": "refs/heads/main"}
    new = NewBuild("main", "c0ffee", pipeline_ir="{}", **of_main)  # type: ignore[arg-type]
    build = storage.builds.create(pipeline, new, [new_job("a")])
    (job,) = storage.jobs.of_build(build.id)
    finish(storage, job, started(storage, job))
    storage.artifacts.store(build, job, [storage.artifacts.files.write(build.uuid, "app", [b"app"])])
    monkeypatch.chdir(tmp_path)
    name = f"{service.org}/web/1"
    printed("artifact", "get", name, "--provenance", "--to", "got")
    line = ["artifact", "verify", "got/app", "--provenance", "got/app.provenance.json"]
    said = printed(*line, "--issuer", service.url, "--repository", "https://example.org/r", "--ref", "main")
    of = "https://example.org/r at refs/heads/main, commit c0ffee"
    assert said == [f"got/app is verified: {service.url} built it in {service.org}/web of {of}"]
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": [dict(each) for each in storage.issuer_keys.ever_public()]}))
    assert run_json(*line, "--key", "keys.json")["pipeline"] == f"{service.org}/web"
    Path("got/app").write_bytes(b"apq")
    assert main([*line, "--key", "keys.json"]) == 1
    assert "got/app is not verified: the file is not the one" in capsys.readouterr().err
    Path("got/app.provenance.json").write_text(" " * 2**20 + json.dumps(envelope()))
    assert main([*line, "--key", "keys.json"]) == 1
    assert "no DSSE envelope" in capsys.readouterr().err
    assert main(line) == 2
    assert "say whom you trust" in capsys.readouterr().err
    assert main([*line, "--issuer", "http://ci.example.org"]) == 1
    assert "begins with https://" in capsys.readouterr().err
