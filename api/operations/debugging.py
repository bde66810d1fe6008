"""A shell in a job's VM, for the owner of the host, and the end of its hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from api.operations.operation import DELETE, GET, POST, Call, Refused, owners_operation
from api.operations.things import BUILD, ThisBuild
from storage import HoldEnd, hidden, immutable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage import Build, Hold, Job, Lease, Storage

_DEBUG = f"{BUILD}/debug"
_OF_STEP = f"{_DEBUG}/{{step}}"
_HELD = (
    "The VM of a failed job is held for a while if its build was created with `debug`, as by `ci-daemon submit --debug`"
)


class Shell(Protocol):
    """A connection to a job's VM, for programs that run beside the job."""

    def run(self, command: Sequence[str]) -> int:
        """Run a command and return its exit code; an empty one is a shell at this process's terminal."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class NoTarget(Refused):
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


@immutable
class FindVmRequest:
    """The body of `find_vm`: a step, or None for the only VM, or the only one that is held."""

    step: str | None


@immutable
class OpenShellRequest:
    """The body of `open_shell`: whether one command is run instead of a shell, which the audit tells."""

    command: bool


@immutable
class OpenForkRequest:
    """The body of `open_fork_shell`: whether the disk is that from before the command."""

    before: bool


@immutable
class OpenedShell:
    """A shell that the caller closes."""

    shell: Shell
    effect: str


@immutable
class ReleasedVm:
    """The lease of a VM whose hold ends. If nothing ``serves``, the VM stays until the service runs."""

    released: str
    serves: bool = hidden()


@owners_operation("findJobVm", GET, _DEBUG)
def find_vm(call: Call, build: ThisBuild, body: FindVmRequest) -> Target:
    """Find the VM of a build's step. Raises NoTarget."""
    return find_target(call.storage, build, body.step)


@owners_operation("openShell", POST, _OF_STEP)
def open_shell(call: Call, build: ThisBuild, step: str, body: OpenShellRequest) -> OpenedShell:
    """Connect to the VM of a step, as root. Raises NoTarget and VmError."""
    shell = call.box.open_shell(find_target(call.storage, build, step))
    return OpenedShell(shell, "a command" if body.command else "a shell")


@owners_operation("openForkShell", POST, f"{_OF_STEP}/fork")
def open_fork_shell(call: Call, build: ThisBuild, step: str, body: OpenForkRequest) -> OpenedShell:
    """Open a shell in a VM of its own, with a fork of the disk of a step. Raises Refused and VmError."""
    job = next((each for each in call.storage.jobs.of_build(build.id) if each.step_key == step), None)
    if job is None:
        raise Refused(f'the build has no step "{step}": `ci-daemon job list {build.name}` shows all')
    shell = call.box.open_fork(build, job, before=body.before, opened_by=call.actor)
    return OpenedShell(shell, "before its command" if body.before else "as its command left it")


@owners_operation("releaseVm", DELETE, _OF_STEP)
def release_vm(call: Call, build: ThisBuild, step: str) -> ReleasedVm:
    """End the hold on the VM of a step, and with it the VM. Raises Refused if it is not held."""
    target = find_target(call.storage, build, step)
    if target.hold is None or not call.storage.holds.shorten(target.hold.id, HoldEnd.RELEASED):
        raise Refused(
            f"the VM of {build.name} {step} is not held: the job is {target.job.state}, and its VM is destroyed when"
            " the job ends"
        )
    return ReleasedVm(target.lease.uuid, call.box.serves())


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
