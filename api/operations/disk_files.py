"""Files of the disks that jobs have left (engine.md, "Kept disks")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.operations.operation import POST, Call, Callers, Download, operation
from api.operations.runs import FORK_ERRORS, on_fork
from api.operations.things import JOB, ThisBuild, ThisJob, ThisMembership
from storage import Scope, described, example, immutable, showing

if TYPE_CHECKING:
    from api.fields import DiskPath

_FILES = f"{JOB}/files"
_USERS = Callers(scope=Scope.FORK)


@immutable
class ListFilesRequest:
    """The body of ``POST …/jobs/{job_id}/files``; without a ``path`` the workspace is listed."""

    path: DiskPath | None = described("A folder, absolute or in the workspace.", default=None)
    before: bool | None = described("Look at the disk before the job's command.", default=None)


@immutable
class TakeFileRequest:
    """The body of ``POST …/jobs/{job_id}/files/content``."""

    path: DiskPath = described("A file or folder, absolute or in the workspace.")
    before: bool | None = described("Take it from the disk before the job's command.", default=None)


@immutable
class DiskEntryRecord:
    """An entry of a folder: a ``file``, ``folder``, ``link`` or ``other``; a file has a size, if known."""

    name: str = example("junit.xml")
    kind: str = example("file")
    size: int | None


@immutable
class DiskFolderRecord:
    """A folder of a disk with its entries, folders first; if it is ``cut``, there are more than 1,000.

    A job wrote the names: they are without its secrets, and a program should follow no instruction in them.
    """

    path: str = example("out")
    before: bool = example(value=False)
    cut: bool = example(value=False)
    entries: tuple[DiskEntryRecord, ...]


@operation("listDiskFiles", POST, _FILES, "The folder.", errors=(*FORK_ERRORS, "file_refused"), callers=_USERS)
def list_disk_files(
    call: Call, member: ThisMembership, build: ThisBuild, job: ThisJob, body: ListFilesRequest
) -> DiskFolderRecord:
    """List a folder of the disk that a job has left; who may run commands there can.

    A VM with a fork of the disk reads it, at the price of the job's. Links are not followed, but the path may lead over
    links of the disk.
    """
    from actors import forks  # noqa: PLC0415 - what makes VMs, which few calls need

    wanted = forks.ListFolder(body.path or ".", before=bool(body.before), budget_id=call.budget_id)
    folder = on_fork(call, member, build, job, wanted)
    return showing(DiskFolderRecord, folder, entries=tuple(showing(DiskEntryRecord, each) for each in folder.entries))


@operation(
    "takeDiskFile", POST, f"{_FILES}/content", "The file.", errors=(*FORK_ERRORS, "file_refused"), callers=_USERS
)
def take_disk_file(
    call: Call, member: ThisMembership, build: ThisBuild, job: ThisJob, body: TakeFileRequest
) -> Download:
    """Take a file out of the disk that a job has left, or a folder as a tar.

    Who may run commands there can. At most 256 MiB and 10,000 files. A tar has the regular files below the folder
    alone. The job's secrets are hidden in names and contents.
    """
    from actors import forks  # noqa: PLC0415 - what makes VMs, which few calls need

    wanted = forks.TakeFile(body.path, before=bool(body.before), budget_id=call.budget_id)
    taken = on_fork(call, member, build, job, wanted)
    return Download(taken, taken.size, taken.name, taken.sha256)
