"""The identity of a job: what its token says of it, for services that trust this one. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from storage import immutable

if TYPE_CHECKING:
    from datetime import datetime

    from storage import Build, Job

TOKEN_VARIABLE = "CI_IDENTITY_TOKEN"  # noqa: S105 - a name
MAX_SECONDS = 3600
_KINDS = (("refs/heads/", "branch"), ("refs/tags/", "tag"), ("refs/pull/", "pull_request"))


@immutable
class TokenTerms:
    """The terms of a token: its issuer, its name, when it is given, and for how many seconds it lives."""

    issuer: str
    name: str
    at: datetime
    seconds: int


def is_identified(build: Build, job: Job) -> bool:
    """Tell whether a job gets a token: it asks for one, and a stranger's code does not run in its build."""
    return job.identity_audience is not None and not build.untrusted


def claims_of(build: Build, job: Job, terms: TokenTerms, *, repository: str, runner: str) -> dict[str, object]:
    """Return the claims of a job's token.

    A build that nobody verified has no ref, commit and repository in it, whatever its request says of them. ``runner``
    is the provider of its VM.
    """
    begun = int(terms.at.timestamp())
    return {
        "iss": terms.issuer,
        "sub": subject_of(build, job),
        "aud": job.identity_audience,
        "iat": begun,
        "nbf": begun,
        "exp": begun + min(terms.seconds, MAX_SECONDS),
        "jti": terms.name,
        "organization": build.organization_slug,
        "pipeline": build.pipeline_slug,
        "build_number": build.number,
        "build_id": build.external_id,
        "job": job.step_key,
        "job_id": job.uuid,
        "attempt": job.attempt,
        "event": build.verified_event.value,
        "fork": build.from_fork,
        "runner": runner,
        **({} if job.environment is None else {"environment": job.environment}),
        **_verified(build, repository),
    }


def subject_of(build: Build, job: Job) -> str:
    """Return the subject of a job's token, which other services compare as a whole or by its beginning."""
    subject = f"organization:{build.organization_slug}:pipeline:{build.pipeline_slug}"
    subject += ":unverified" if build.verified_ref is None else f":ref:{quote(build.verified_ref, safe='/')}"
    return subject if job.environment is None else f"{subject}:environment:{quote(job.environment, safe='')}"


def _verified(build: Build, repository: str) -> dict[str, object]:
    ref = build.verified_ref
    if ref is None:
        return {}
    kind = next(kind for beginning, kind in _KINDS if ref.startswith(beginning))
    source: dict[str, object] = {"repository": repository, "ref": ref, "ref_type": kind}
    source["commit"] = build.source_commit or ""
    if build.merge_commit is None:
        return source
    return {**source, "head_commit": build.commit, "base_commit": build.base_commit}
