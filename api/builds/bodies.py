"""Bodies of requests for builds (wire-decisions.md, "Creating a build")."""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING

from api.errors.catalog import ApiError
from storage import described, immutable

if TYPE_CHECKING:
    from api.fields import BuildSource, Env, GivenInputs, LongText, RequiredText, Sha256, SourceUrl


@immutable
class CreateBuildRequest:
    """The body of ``POST …/pipelines/{pipeline}/builds``. ``inputs`` are those that the pipeline declares.

    ``source_url`` is ignored if ``source_b64`` is given. ``source_sha256`` is the digest of the archive's bytes, in
    hexadecimal.
    """

    branch: RequiredText
    commit: RequiredText
    message: LongText | None = None
    env: Env | None = None
    source: BuildSource | None = None
    pipeline_ir: str | None = None
    source_b64: str | None = None
    debug: bool | None = None
    inputs: GivenInputs | None = None
    source_url: SourceUrl | None = None
    source_sha256: Sha256 | None = None


@immutable
class StartBuildRequest:
    """The body of ``POST …/pipelines/{pipeline}/start``.

    ``ref`` names a branch, a tag, a commit, or a pull request as ``#7``; without it the default branch is built.
    ``inputs`` are those that the pipeline declares, and with ``debug`` the VMs of failed jobs are held.
    """

    ref: RequiredText | None = None
    inputs: GivenInputs | None = None
    message: LongText | None = None
    env: Env | None = None
    source: BuildSource | None = None
    debug: bool | None = None


@immutable
class RebuildRequest:
    """The body of ``POST …/builds/{number}/rebuild``; with ``debug`` the VMs of failed jobs are held.

    ``source`` is as in a request for a build.
    """

    debug: bool | None = None
    source: BuildSource | None = None


@immutable
class RollBackRequest(RebuildRequest):
    """The body of ``POST …/environments/{name}/rollback``: the job of an earlier deployment, which passed.

    The rest is as in a request for a rebuild.
    """

    job_id: RequiredText | None = described("The job of the deployment to go back to.", default=None, word="ID")


@immutable
class RepoIdentity:
    """A pipeline by its repository, ``owner/repo``, and its name in that repository."""

    repo_name: RequiredText
    source_slug: RequiredText


@immutable
class CreateRepoBuildRequest(RepoIdentity):
    """The body of ``POST /api/v0/organizations/{org}/builds``."""

    branch: RequiredText
    commit: RequiredText
    message: LongText | None = None
    env: Env | None = None
    source: BuildSource | None = None
    pipeline_ir: str | None = None
    source_b64: str | None = None
    debug: bool | None = None
    inputs: GivenInputs | None = None


BuildRequest = CreateBuildRequest | CreateRepoBuildRequest
"""A request for a build.

``source`` is a label that the caller chooses and nobody checks; the default is ``api``. With ``debug`` the VM of each
job that fails is held for a while, at the price of its lease, so that the owner of the host can inspect it.
"""


def archive_of(body: BuildRequest) -> bytes | None:
    """Return the bytes of the source archive; None if there is none. Raises ApiError ``build_invalid``.

    Line breaks are allowed, because many encoders write them. Only the encoding is checked here: the jobs that use
    the archive check its content, and its digest if the caller gave one.
    """
    text = body.source_b64
    if not text:
        return None
    if "\n" in text or "\r" in text:
        text = text.translate({ord("\r"): None, ord("\n"): None})
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        raise ApiError("build_invalid", "source_b64: expected the source archive in standard base64") from None
