"""What it takes to create a build (wire-decisions.md, "Pipelines, builds, jobs")."""

from __future__ import annotations

import binascii
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from actors import plan_jobs
from actors.ir import IrError, Limits
from api.errors import ApiError
from api.fields import LongText, RequestBody, RequiredText, Text, Value
from storage import Build, NewBuild, Pipeline, Storage

if TYPE_CHECKING:
    from api.engine import Engine

__all__ = ["BuildIntake", "CreateBuild"]

_MAX_ENV_BYTES = 64 * 2**10
_ENV_NAME = "[A-Za-z_][A-Za-z0-9_]*"
_SHA256 = "[0-9a-fA-F]{64}"
_HAND_STARTED = ("api", "ui")
_NO_SOURCE = "no source to render from: give pipeline_ir, source_b64 or source_url"
_NO_RENDERING = "this version does not render pipeline files: render the pipeline beforehand and give pipeline_ir"


def _env_name(name: str) -> str:
    if not re.fullmatch(_ENV_NAME, name, re.ASCII):
        raise ValueError("expected a name of letters, digits and underscores that starts with no digit")
    return name


def _env_within_limit(env: dict[str, str]) -> dict[str, str]:
    size = sum(len(name.encode()) + len(value.encode()) for name, value in env.items())
    if size > _MAX_ENV_BYTES:
        raise ValueError(f"expected at most {_MAX_ENV_BYTES} bytes of names and values in sum, not {size}")
    return env


def _sha256(value: str) -> str:
    if value and not re.fullmatch(_SHA256, value, re.ASCII):
        raise ValueError("expected the SHA-256 as 64 hexadecimal digits")
    return value.lower()


Env = Annotated[
    dict[Annotated[str, AfterValidator(_env_name)], Value],
    AfterValidator(_env_within_limit),
    Field(json_schema_extra={"propertyNames": {"pattern": f"^{_ENV_NAME}$"}}),
]

Sha256 = Annotated[
    str,
    StringConstraints(max_length=64),
    AfterValidator(_sha256),
    Field(json_schema_extra={"pattern": f"^(?:{_SHA256})?$"}),
]


class CreateBuild(RequestBody):
    """The body of ``POST …/builds``. Where ``source_b64`` is given, ``source_url`` is ignored.

    ``source_sha256`` is the digest of the archive's bytes, in hexadecimal.
    """

    branch: RequiredText
    commit: RequiredText
    message: LongText | None = None
    env: Env | None = None
    source: Literal["api", "ui", "cli"] | None = None
    pipeline_ir: str | None = None
    source_b64: str | None = None
    source_url: Text | None = None
    source_sha256: Sha256 | None = None


class BuildIntake:
    """Admits, plans and stores builds, and hands them to the engine. Safe in any thread."""

    def __init__(self, storage: Storage, engine: Engine, limits: Limits) -> None:
        self._storage = storage
        self._engine = engine
        self._limits = limits

    def admit(self, pipeline: Pipeline, document: object) -> None:
        """Refuse what is refused whatever else the body says. Leaves no row behind.

        Raises ApiError ``pipeline_manual_disabled`` or ``billing_insufficient_balance``.
        """
        if not pipeline.allow_manual and _claimed_source(document) in _HAND_STARTED:
            raise ApiError("pipeline_manual_disabled", f'the pipeline "{pipeline.slug}" takes no manual builds')
        if not self._storage.rates.free:
            balance = self._storage.ledger.balance(pipeline.organization_id)
            if balance <= 0:
                raise ApiError(
                    "billing_insufficient_balance",
                    f"the balance is {balance} cents; builds start while it is above 0",
                )

    def create(self, pipeline: Pipeline, body: CreateBuild) -> Build:
        """Plan and store a build, and set it going.

        Raises ApiError ``build_invalid``, which leaves no row behind, or ``build_plan_rejected``, which leaves a failed
        build that says the same.
        """
        new = NewBuild(
            branch=body.branch,
            commit=body.commit,
            message=body.message,
            source=body.source or "api",
            env=body.env or {},
            pipeline_ir=body.pipeline_ir,
            source_archive=_archive(body),
            source_sha256=body.source_sha256 or "",
        )
        if body.pipeline_ir is None or not body.pipeline_ir.strip():
            has_source = new.source_archive is not None or bool(body.source_url)
            raise self._rejected(pipeline, new, "render_failed", _NO_RENDERING if has_source else _NO_SOURCE)
        try:
            planned = plan_jobs(body.pipeline_ir, self._limits)
        except IrError as error:
            raise self._rejected(pipeline, new, error.code, error.message) from None
        new = replace(new, timeout_seconds=planned.timeout_seconds)
        build = self._storage.builds.create(pipeline, new, planned.jobs)
        self._engine.jobs_added(build.id)
        return build

    def _rejected(self, pipeline: Pipeline, new: NewBuild, code: str, message: str) -> ApiError:
        build = self._storage.builds.create_rejected(pipeline, new, code, message)
        return ApiError("build_plan_rejected", f"{code}: {message}", build_number=build.number)


def _claimed_source(document: object) -> object:
    """Return what a body that is not checked yet says about how it was triggered."""
    claimed = document.get("source") if isinstance(document, dict) else None
    return "api" if claimed is None else claimed


def _archive(body: CreateBuild) -> bytes | None:
    """Return the source archive's bytes. Line breaks, as many encoders make them, are no fault.

    Only the encoding is looked at here: what the archive holds, and whether it has the digest that the caller says, is
    found out by the jobs that need it. Raises ApiError ``build_invalid``.
    """
    if not body.source_b64:
        return None
    text = body.source_b64.translate({ord("\r"): None, ord("\n"): None})
    try:
        archive = binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except ValueError:
        raise ApiError("build_invalid", "source_b64: expected the source archive in standard base64") from None
    return archive
