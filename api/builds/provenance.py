"""Provenance of artifacts: how a job made a file, in SLSA's words, and how that is signed. Pure.

A statement is SLSA's provenance v1 in an in-toto statement v1, inside a DSSE envelope. What a request claimed of its
branch, commit and repository is in no statement: only what the service fetched itself.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from storage import VerifiedEvent, timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from storage import Artifact, Build, Job

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:ci-daemon:job:v1"
"""The type of all builds of this service; `docs/provenance.md` says what its parameters are."""


def signed_message(payload_type: str, payload: bytes) -> bytes:
    """Return the bytes that a signature of an envelope is of, which no token of this service can be."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def signed(statement: Mapping[str, Any], sign: Callable[[bytes], tuple[str, bytes]]) -> tuple[str, str, str]:
    """Return a statement and its signature, both in base64, with the name of the key in between.

    ``sign`` returns the name of its key, and a signature.
    """
    payload = json.dumps(statement, separators=(",", ":"), sort_keys=True).encode()
    name, signature = sign(signed_message(PAYLOAD_TYPE, payload))
    return _text(payload), name, _text(signature)


def statement_of(
    build: Build, job: Job, artifact: Artifact, *, service: str, repository: str, runner: str, image: str | None
) -> dict[str, Any]:
    """Return what is said of an artifact of a job that passed.

    ``service`` is the address of this service, ``repository`` the clone URL of the pipeline's, ``runner`` the provider
    of the job's VM and ``image`` the image that it started from.
    """
    verified = _verified(build, repository)
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": artifact.path, "digest": {"sha256": artifact.sha256}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "organization": build.organization_slug,
                    "pipeline": build.pipeline_slug,
                    "job": job.step_key,
                    "event": build.verified_event.value,
                    "inputs": dict(build.inputs),
                    **verified,
                    **({} if job.environment is None else {"environment": job.environment}),
                },
                "internalParameters": {"runner": runner, "image": image, "fork": build.from_fork},
                "resolvedDependencies": [*_sources(verified), *_images(image, job)],
            },
            "runDetails": {
                "builder": {"id": service},
                "metadata": {
                    "invocationId": f"{service}/{build.page}/jobs/{job.uuid}/attempts/{job.attempt}",
                    "startedOn": None if job.started_at is None else timestamp(job.started_at),
                    "finishedOn": None if job.finished_at is None else timestamp(job.finished_at),
                },
            },
        },
    }


def _verified(build: Build, repository: str) -> dict[str, str]:
    """Return what the service knows of the source by itself: an admin's word for a branch is a word."""
    commit = build.source_commit
    if build.verified_ref is None or build.verified_event is VerifiedEvent.API or not commit:
        return {}
    source = {"repository": repository, "ref": build.verified_ref, "commit": commit}
    if build.merge_commit is None:
        return source
    return {**source, "headCommit": build.commit or "", "baseCommit": build.base_commit or ""}


def _images(name: str | None, job: Job) -> list[dict[str, object]]:
    """Return the images that the job and its services ran from, as far as they have digests, each once.

    That of a registry has its package URL and the digest of its manifest, an imported one the digest of its tar.
    """
    services, found = job.all_services, {}
    if name is not None and job.image_digest is not None:
        found[job.image_digest] = name
    for service, digest in job.service_image_digests.items():
        if service in services:
            found.setdefault(digest, services[service].image)
    return [_image(name, digest) for digest, name in found.items()]


def _image(name: str, found: str) -> dict[str, object]:
    repository, _, digest = found.rpartition("@")
    kind, _, value = digest.partition(":")
    if not repository:
        return {"name": name, "digest": {kind: value}}
    uri = f"pkg:oci/{repository.rpartition('/')[2]}@{quote(digest, safe='')}?repository_url={repository}"
    return {"name": name, "uri": uri, "digest": {kind: value}}


def _sources(verified: Mapping[str, str]) -> list[dict[str, object]]:
    if not verified:
        return []
    repository = verified["repository"]
    place = f"file://{repository}" if repository.startswith("/") else repository
    uri = f"git+{place}@{verified['ref']}"
    return [{"uri": uri, "digest": {"gitCommit": verified["commit"]}}]


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
