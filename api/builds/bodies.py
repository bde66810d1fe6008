"""Bodies of requests for builds (wire-decisions.md, "Creating a build")."""

from __future__ import annotations

import binascii
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from api.errors.responses import ApiError
from api.fields import LongText, RequestBody, RequiredText, Value

__all__ = ["BuildRequest", "CreateBuildRequest", "CreateRepoBuildRequest", "RebuildRequest", "RepoIdentity"]

_MAX_ENV_BYTES = 64 * 2**10
_ENV_NAME = "[A-Za-z_][A-Za-z0-9_]*"
_SOURCE_URL = "https?://[^\\s/?#@]+(?:[/?][^\\s#]*)?"
_SHA256 = "[0-9a-fA-F]{64}"


def _env_name(name: str) -> str:
    if not re.fullmatch(_ENV_NAME, name, re.ASCII):
        raise ValueError("expected letters, digits and underscores, no digit first")
    return name


def _env_within_limit(env: dict[str, str]) -> dict[str, str]:
    size = sum(len(name.encode()) + len(value.encode()) for name, value in env.items())
    if size > _MAX_ENV_BYTES:
        raise ValueError(f"expected at most {_MAX_ENV_BYTES} bytes of names and values in all, not {size}")
    return env


def _source_url(value: str) -> str:
    if value and not re.fullmatch(_SOURCE_URL, value, re.ASCII | re.IGNORECASE):
        raise ValueError("expected the URL of an archive, such as https://example.org/source.tar.gz")
    return value


def _sha256(value: str) -> str:
    if value and not re.fullmatch(_SHA256, value, re.ASCII):
        raise ValueError("expected the SHA-256 as 64 hexadecimal digits")
    return value.lower()


Env = Annotated[
    dict[Annotated[str, AfterValidator(_env_name)], Value],
    AfterValidator(_env_within_limit),
    Field(json_schema_extra={"propertyNames": {"pattern": f"^{_ENV_NAME}$"}}),
]

SourceUrl = Annotated[
    str,
    StringConstraints(max_length=255),
    AfterValidator(_source_url),
    Field(json_schema_extra={"pattern": f"^(?:{_SOURCE_URL})?$"}),
]

Sha256 = Annotated[
    str,
    StringConstraints(max_length=64),
    AfterValidator(_sha256),
    Field(json_schema_extra={"pattern": f"^(?:{_SHA256})?$"}),
]

BuildSource = Literal["api", "ui", "cli", "webhook", "schedule", "trigger_job"]


class BuildRequest(RequestBody):
    """The fields of every request for a build.

    ``source`` is a label that the caller chooses and nobody checks; the default is ``api``. With ``debug`` the VM of
    each job that fails is held for a while, at the price of its lease, so that the owner of the host can inspect it.
    """

    branch: RequiredText
    commit: RequiredText
    message: LongText | None = None
    env: Env | None = None
    source: BuildSource | None = None
    pipeline_ir: str | None = None
    source_b64: str | None = None
    debug: bool | None = None

    def archive(self) -> bytes | None:
        """Return the bytes of the source archive; None if there is none. Raises ApiError ``build_invalid``.

        Line breaks are allowed, because many encoders write them. Only the encoding is checked here: the jobs that use
        the archive check its content, and its digest if the caller gave one.
        """
        if not self.source_b64:
            return None
        text = self.source_b64
        if "\n" in text or "\r" in text:
            text = text.translate({ord("\r"): None, ord("\n"): None})
        try:
            return binascii.a2b_base64(text, strict_mode=True)
        except ValueError:
            raise ApiError("build_invalid", "source_b64: expected the source archive in standard base64") from None


class CreateBuildRequest(BuildRequest):
    """The body of ``POST …/pipelines/{pipeline}/builds``.

    ``source_url`` is ignored if ``source_b64`` is given. ``source_sha256`` is the digest of the archive's bytes, in
    hexadecimal.
    """

    source_url: SourceUrl | None = None
    source_sha256: Sha256 | None = None


class RebuildRequest(RequestBody):
    """The body of ``POST …/builds/{number}/rebuild``; with ``debug`` the VMs of failed jobs are held.

    ``source`` is as in a request for a build.
    """

    debug: bool | None = None
    source: BuildSource | None = None


class RepoIdentity(RequestBody):
    """A pipeline by its repository, ``owner/repo``, and its name in that repository."""

    repo_name: RequiredText
    source_slug: RequiredText


class CreateRepoBuildRequest(BuildRequest, RepoIdentity):
    """The body of ``POST /api/v0/organizations/{org}/builds``."""
