"""The notices before a command's output: the attempt, secrets that are withheld, a substitute image."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.builds.attempt.assignment import Assignment
    from actors.vms import Images
    from storage import Job, Storage


def opening_notices(assignment: Assignment, member: str | None, images: Images, storage: Storage) -> list[str]:
    """Return the lines that a job's log opens with; ``member`` is the one of a cluster that its VM is on."""
    job, used = assignment.job, assignment.lease.image
    lines = [f"attempt {job.attempt}"] if job.attempt > 1 else []
    if member is not None:
        lines.append(f"this job runs on the member {member}")
    if assignment.build.untrusted and job.secrets:
        names = ", ".join(job.secrets)
        lines.append(f"this build is of a pull request from a fork, so it runs without its secrets: {names}")
    if assignment.parent is None and _is_new_substitute(job, used, images, storage):
        lines.append(f'the image "{job.image}" is not on this host: "{used}" stands in for it in this build')
    return lines


def _is_new_substitute(job: Job, used: str | None, images: Images, storage: Storage) -> bool:
    """Tell whether an image stands in for the job's, and no earlier attempt has said so."""
    if job.image is None or used is None or not images.is_substitute(job.image, used):
        return False
    return storage.attempts.is_first_of_image(job.id, job.attempt)
