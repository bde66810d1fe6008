"""Choose a VM of a build: that of a named step, or the only held one, or the only one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import immutable

if TYPE_CHECKING:
    from storage import Build, Hold, Job, Lease, Storage

_HELD = (
    "The VM of a failed job is held for a while if its build was created with `debug`, as by `ci-daemon submit --debug`"
)


class NoTarget(Exception):
    """No single VM matches; the message lists those that exist."""


@immutable
class Target:
    """A job's existing VM, with the hold on it if the job is over."""

    build: Build
    job: Job
    lease: Lease
    hold: Hold | None

    def __str__(self) -> str:
        """Return the step and its state, such as `test (held)`."""
        return f"{self.job.step_key} ({'held' if self.hold else self.job.state})"


def find_target(storage: Storage, build: Build, step_key: str | None) -> Target:
    """Return the VM of a build's step; without a step, the only VM, or the only held one of several.

    Raises NoTarget.
    """
    found = _targets(storage, build)
    matching = [target for target in found if step_key in {None, target.job.step_key}]
    if len(matching) > 1:
        matching = [target for target in matching if target.hold is not None]
    if len(matching) == 1:
        return matching[0]
    raise NoTarget(_reason(storage, build, step_key, found))


def _targets(storage: Storage, build: Build) -> list[Target]:
    """Return the build's VMs that run a command or are held, in the order of their jobs."""
    jobs = {job.id: job for job in storage.jobs.of_build(build.id)}
    targets = []
    for lease in storage.leases.live():
        job = None if lease.job_id is None else jobs.get(lease.job_id)
        if job is None or job.attempt != lease.attempt or lease.started_at is None:
            continue
        hold = storage.holds.of_lease(lease.id)
        if hold is not None or not job.state.terminal:
            targets.append(Target(build, job, lease, hold))
    return sorted(targets, key=lambda target: target.job.position)


def _reason(storage: Storage, build: Build, step_key: str | None, found: list[Target]) -> str:
    others = f"these jobs have a VM: {', '.join(map(str, found))}"
    if step_key is None and found:
        return f"give a STEP: {others}"
    if step_key is None:
        return f"no job of this build has a VM: the build is {build.state}. {_HELD}"
    job = next((job for job in storage.jobs.of_build(build.id) if job.step_key == step_key), None)
    if job is None:
        return f'the build has no step "{step_key}"' + (f"; {others}" if found else "")
    return f'the step "{step_key}" has no VM: its job is {job.state}' + (f"; {others}" if found else f". {_HELD}")
