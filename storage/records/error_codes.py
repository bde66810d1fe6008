"""The values of ``error_code`` of jobs and builds, which `docs/pipelines.md` explains to users."""

from __future__ import annotations

from enum import StrEnum


class JobErrorCode(StrEnum):
    """The reasons why a job failed or timed out, besides its exit code (engine.md, "Error codes")."""

    ARTIFACTS_INCOMPLETE = "artifacts_incomplete"
    DISK_FULL = "disk_full"
    ENV_TOO_LARGE = "env_too_large"
    IMAGE_NOT_FOUND = "image_not_found"
    INTERNAL_ERROR = "internal_error"
    LEASE_FAILED = "lease_failed"
    LOG_NOT_KEPT = "log_not_kept"
    PIPELINE_TIMEOUT = "pipeline_timeout"
    SECRET_NOT_FOUND = "secret_not_found"  # noqa: S105 - a code
    SNAPSHOT_FAILED = "snapshot_failed"
    SOURCE_FETCH_FAILED = "source_fetch_failed"
    STEP_TIMEOUT = "step_timeout"
    VM_LOST = "vm_lost"

    @property
    def of_service(self) -> bool:
        """True if the owner of the service should look into it, rather than the author of the pipeline."""
        return self in {
            JobErrorCode.INTERNAL_ERROR,
            JobErrorCode.LEASE_FAILED,
            JobErrorCode.LOG_NOT_KEPT,
            JobErrorCode.SNAPSHOT_FAILED,
            JobErrorCode.VM_LOST,
        }


class BuildErrorCode(StrEnum):
    """The reasons why a build failed, other than its jobs (pipeline-ir.md, "Validation")."""

    BAD_VERSION = "bad_version"
    BILLING_INSUFFICIENT_BALANCE = "billing_insufficient_balance"
    CYCLE = "cycle"
    DUPLICATE_KEY = "duplicate_key"
    INTERNAL_ERROR = "internal_error"
    INVALID_IR = "invalid_ir"
    INVALID_JSON = "invalid_json"
    RENDER_FAILED = "render_failed"
    SUPERSEDED = "superseded"
    UNKNOWN_DEPENDENCY = "unknown_dependency"
