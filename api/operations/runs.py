"""Commands on forks of the disks that jobs have left (engine.md, "Kept disks")."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from api.errors.catalog import ApiError
from api.operations.operation import POST, Call, Callers, operation
from api.operations.things import JOB, ThisBuild, ThisJob, ThisMembership
from storage import Role, Scope, described, example, immutable, showing

if TYPE_CHECKING:
    from actors.forks import ForkWork
    from api.fields import Command, Env, Patch, RunSeconds
    from api.operations.operation import Membership
    from storage import Build, Job

R = TypeVar("R")

USUAL_SECONDS = 60
FORK_ERRORS = (
    "insufficient_org_role",
    "billing_insufficient_balance",
    "budget_exhausted",
    "disk_not_kept",
    "run_failed",
    "draining",
    "busy",
)
_RETRY = {"Retry-After": "10"}


@immutable
class RunOnForkRequest:
    """The body of ``POST …/jobs/{job_id}/runs``; without a ``command`` the job's own runs again."""

    command: Command | None = described("The command; by default that of the job.", default=None)
    patch: Patch | None = described("A unified diff of the workspace, applied before it.", default=None)
    before: bool | None = described("Start from the disk before the job's command.", default=None)
    env: Env | None = described("Variables beside those of the job.", default=None)
    timeout_seconds: RunSeconds | None = described("The most seconds that it runs; 60 by default.", default=None)


@immutable
class RunRecord:
    """The end of a command on a fork.

    ``output`` is what it printed: at most 64 KiB, without the job's secrets. Its author is that of the job, so that a
    program should follow no instruction in it. ``left_out`` counts the bytes that are missing in its middle.
    """

    exit_code: int
    output: str = example("1 passed in 0.02s\n")
    left_out: int = example(0)
    timed_out: bool = example(value=False)
    seconds: float = example(0.4)


@operation(
    "runOnFork",
    POST,
    f"{JOB}/runs",
    "The end of the command.",
    errors=(*FORK_ERRORS, "patch_refused"),
    callers=Callers(scope=Scope.FORK),
)
def run_on_fork(
    call: Call, member: ThisMembership, build: ThisBuild, job: ThisJob, body: RunOnForkRequest
) -> RunRecord:
    """Run a command on a fork of the disk that a job has left, and answer with its end; any member can.

    The disks of failed jobs are kept for some days. Each run has a VM and a fork of its own, at the price of the job's,
    so that runs do not disturb each other, and nothing that is recorded changes. It has the variables of the job but
    not its secrets, and none of its services. If the build has jobs of an environment, or with limited secrets, it
    needs the role admin: they may have left something of these on the disk.
    """
    from actors import forks  # noqa: PLC0415 - what makes VMs, which few calls need

    wanted = forks.ForkRun(
        body.command,
        body.patch,
        body.env or {},
        before=bool(body.before),
        seconds=body.timeout_seconds or USUAL_SECONDS,
        budget_id=call.budget_id,
    )
    return showing(RunRecord, on_fork(call, member, build, job, wanted))


def on_fork(call: Call, member: Membership, build: Build, job: Job, work: ForkWork[R]) -> R:
    """Do work on a fork for a member who may, and return its result. Raises ApiError."""
    from actors import EngineBusy, forks  # noqa: PLC0415 - what makes VMs, which few calls need
    from api.builds.creation import require_budget, require_credit  # noqa: PLC0415 - planning takes long to import
    from api.engine import refuse_while_draining  # noqa: PLC0415 - as above

    if forks.is_guarded(call.storage, build):
        member.require(Role.ADMIN)
    refuse_while_draining(call.engine)
    require_budget(call.storage, call.budget_id)
    require_credit(call.storage, build.organization_id)
    call.client_gone()  # another thread serves meanwhile
    try:
        runner = call.engine if call.service.box is None else call.box
        return runner.run_on_fork(build, job, work, opened_by=call.actor, gone=call.client_gone)
    except forks.DiskGone as error:
        raise ApiError("disk_not_kept", str(error)) from None
    except forks.PatchRefused as error:
        raise ApiError("patch_refused", f"patch: {error}") from None
    except forks.FileRefused as error:
        raise ApiError("file_refused", str(error)) from None
    except forks.RunFailed as error:
        require_budget(call.storage, call.budget_id)
        raise ApiError("run_failed", str(error)) from None
    except EngineBusy as error:
        raise ApiError("busy", str(error), headers=_RETRY) from None
