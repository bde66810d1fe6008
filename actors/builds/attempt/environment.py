"""The environment of a job's command (engine.md, "The environment"). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors import vms
from actors.builds.attempt import told
from actors.ir import CONTAINERS_VARIABLE, EVENT_VARIABLE, event_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage import Build, Job

_DEFAULTS = {
    "HOME": "/root",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
}
_MB_IN_GB = 1024
_MAX_BYTES = 1 << 20
"""Linux takes 2 MiB of environment and arguments together; the rest is for the arguments of programs."""


class EnvironmentTooLarge(Exception):
    """A job has more variables than Linux passes to a program; the message says what to do."""


def builds_images(job: Job) -> bool:
    """Tell whether a job is set up for programs that build and run images."""
    return job.env.get(CONTAINERS_VARIABLE) == "true"


def declared_environment(
    job: Job, *, of_jobs: Mapping[str, str], of_needed: Mapping[str, str], of_build: Mapping[str, str]
) -> dict[str, str]:
    """Return the variables that people and other jobs give to a job's command. Later sources win."""
    return {**of_jobs, **of_needed, **job.env, **of_build}


def job_environment(
    build: Build,
    job: Job,
    page: str,
    *,
    of_jobs: Mapping[str, str],
    of_image: Mapping[str, str],
    of_needed: Mapping[str, str],
    of_build: Mapping[str, str],
    secrets: Mapping[str, str],
) -> dict[str, str]:
    """Return the variables of a job's command. Later sources win, and the service's own win over all.

    ``page`` is the address of the build's page. ``of_jobs`` are the owner's for all jobs (``jobs.env``), ``of_needed``
    the outputs of the jobs that it needs.
    ``CI_CPUS`` and ``CI_MEMORY_MB`` are the shape of the job's VM: `nproc` and ``/proc/meminfo`` show the host's.
    Buildah and Podman find the settings of a job that builds images by ``CONTAINER_VARIABLES``.

    Raises EnvironmentTooLarge.
    """
    env = {
        **_DEFAULTS,
        **of_image,
        EVENT_VARIABLE: event_of(build.source),
        **(vms.CONTAINER_VARIABLES if builds_images(job) else {}),
        **declared_environment(job, of_jobs=of_jobs, of_needed=of_needed, of_build=of_build),
        **secrets,
        "CI": "true",
        "CI_ORG": build.organization_slug,
        "CI_PIPELINE": build.pipeline_slug,
        "CI_BUILD_NUMBER": str(build.number),
        "CI_BUILD_ID": build.external_id,
        "CI_BUILD_URL": page,
        "CI_JOB_ID": job.uuid,
        "CI_STEP_KEY": job.step_key,
        "CI_BRANCH": build.branch or "",
        "CI_COMMIT": build.commit or "",
        "CI_ATTEMPT": str(job.attempt),
        "CI_OUTPUT": vms.told_path(told.OUTPUTS),
        "CI_SUMMARY": vms.told_path(told.SUMMARY),
        "CI_ANNOTATIONS": vms.told_path(told.ANNOTATIONS),
        "CI_CPUS": str(job.shape.cpu),
        "CI_MEMORY_MB": str(job.shape.memory_gb * _MB_IN_GB),
    }
    size = sum(len(f"{name}={value}\0".encode()) for name, value in env.items())
    if size > _MAX_BYTES:
        message = (
            f"the job's environment has {size:,} bytes of at most {_MAX_BYTES:,}: give it fewer or shorter secrets"
        )
        raise EnvironmentTooLarge(message)
    return env
