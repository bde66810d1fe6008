"""The environment of a job's command (engine.md, "A job attempt", step 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.runtime import Runtime
    from storage import Build, Job

__all__ = ["job_environment"]

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def job_environment(runtime: Runtime, build: Build, job: Job) -> dict[str, str]:
    """Return the variables of a job's command: later ones win, and nobody overrides the service's own."""
    build_path = f"organizations/{build.organization_slug}/pipelines/{build.pipeline_slug}/builds/{build.number}"
    return {
        "HOME": "/root",
        "PATH": _PATH,
        **job.env,
        **runtime.storage.builds.env(build.id),
        "CI": "true",
        "CI_ORG": build.organization_slug,
        "CI_PIPELINE": build.pipeline_slug,
        "CI_BUILD_NUMBER": str(build.number),
        "CI_BUILD_ID": build.external_id,
        "CI_BUILD_URL": f"{runtime.base_url}/api/v0/{build_path}",
        "CI_JOB_ID": job.uuid,
        "CI_STEP_KEY": job.step_key,
        "CI_BRANCH": build.branch or "",
        "CI_COMMIT": build.commit or "",
        "CI_ATTEMPT": str(job.attempt),
    }
