"""One command on a fork of a job's disk, with a patch, and its output within bounds."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from actors import vms
from actors.builds.attempt.vm import Abandoned
from actors.builds.outcome import DiskUse, disk_failure, seconds_to_full
from actors.forks.patch import PatchedFile, PatchRefused, apply_patch, needed_files, parse_patch
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from actors.forks.forks import Fork, Forks
    from actors.forks.patch import FilePatch
    from storage import Build, Job, Masker

T_co = TypeVar("T_co", covariant=True)

MAX_OUTPUT = 64 << 10
"""The most bytes of a run's output that are kept: a quarter of its beginning, and its end."""

_TAIL = MAX_OUTPUT * 3 // 4
FORK_SECONDS = 180
"""The most seconds that the VM of a run outlives its killed service."""

_BEAT_SECONDS = 60.0
_LOOK_SECONDS = 1.0
_LATE_SECONDS = 15.0
_GRACE = 5.0
_FILES_SECONDS = 30.0
_MOST_FILE_BYTES = 16 << 20
_MOST_REPORT_BYTES = 20 << 20


class RunFailed(Exception):
    """A command on a fork has no end to tell of; the message says why."""


class ForkWork(Protocol[T_co]):
    """Work on a fork of a job's disk."""

    def done_on(self, forks: Forks, build: Build, job: Job, *, opened_by: str, gone: Callable[[], bool]) -> T_co:
        """Make a fork, and return what came of the work; stop if the caller is ``gone``.

        Raises RunFailed, what `Forks.open` raises, and what the kind of work does.
        """
        ...


@immutable
class ForkRun:
    """A command to run on a fork, after a ``patch`` of the workspace; by default the job's own.

    ``env`` adds to the variables of the job. It has ``seconds``. With ``before`` the disk is what the job started from.
    The budget of an API key pays for it, if one is given. ``reports`` are paths of files in the workspace that it is
    to write: they are removed before it, and taken after it.
    """

    command: str | None = None
    patch: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    before: bool = False
    seconds: int = 60
    budget_id: int | None = None
    reports: tuple[str, ...] = ()

    def done_on(self, forks: Forks, build: Build, job: Job, *, opened_by: str, gone: Callable[[], bool]) -> RunOutcome:
        """Run it. Raises as `run` does."""
        return run(forks, build, job, self, opened_by=opened_by, gone=gone)


@immutable
class RunOutcome:
    """The end of a run, after ``seconds``; ``left_out`` bytes of its ``output`` are missing in the middle.

    ``reports`` are the contents of those files that it has written, by path.
    """

    exit_code: int
    output: str
    left_out: int
    timed_out: bool
    seconds: float
    reports: Mapping[str, bytes] = field(default_factory=dict)


def run(
    forks: Forks, build: Build, job: Job, wanted: ForkRun, *, opened_by: str, gone: Callable[[], bool]
) -> RunOutcome:
    """Run a command on a fork of a job's disk and return its end; stop if the caller is ``gone``.

    Raises PatchRefused and RunFailed, and what `Forks.open` raises.
    """
    changes = None if wanted.patch is None else parse_patch(wanted.patch)
    opened = forks.open(
        build, job, before=wanted.before, seconds=FORK_SECONDS, opened_by=opened_by, budget_id=wanted.budget_id
    )
    with opened as fork:
        connection = fork.link.connected()
        if changes is not None:
            _patch(connection, changes, int(forks.clock.now().timestamp()))
        with watched(forks, fork, wanted.seconds + _GRACE + _LATE_SECONDS, gone):
            if wanted.reports:
                vms.change_files(connection, {}, wanted.reports, time=0, timeout=_FILES_SECONDS)
            done = _follow(forks, fork, connection, wanted)
            return replace(done, reports=_reports(connection, wanted.reports)) if wanted.reports else done


def _follow(forks: Forks, fork: Fork, connection: vms.Connection, wanted: ForkRun) -> RunOutcome:
    spec = vms.CommandSpec(
        command=fork.job.command if wanted.command is None else wanted.command,
        strict=fork.build.strict_shell,
        env={**fork.variables, **wanted.env},
        seconds=wanted.seconds,
        grace=_GRACE,
        output_limit=MAX_OUTPUT,
        output_tail=_TAIL,
        output_patience=_LATE_SECONDS,
    )
    began = forks.clock.monotonic()
    following = vms.start(connection, spec)
    head, tail = bytearray(), bytearray()
    for piece in following:
        (tail if following.left_out else head).extend(piece)
        if len(head) + len(tail) > 2 * MAX_OUTPUT:
            raise RunFailed("the VM sent more output than it was asked for")
    exited = following.exited
    assert exited is not None  # noqa: S101 - it was followed to its end
    return RunOutcome(
        exited.exit_code,
        shown_output(bytes(head), bytes(tail), following.left_out, fork.masker),
        following.left_out,
        exited.timed_out,
        round(forks.clock.monotonic() - began, 3),
    )


def shown_output(head: bytes, tail: bytes, left_out: int, masker: Masker) -> str:
    """Return output as text without secrets, also where one is cut by the part that is ``left_out``. Pure."""
    if not left_out:
        return _text(masker.mask(head + tail, more=False)[0])
    first = masker.mask(head, more=True)[0]
    last = masker.mask(tail[masker.longest :], more=False)[0]
    return f"{_text(first)}\n[{left_out} bytes of output are left out]\n{_text(last)}"


def _text(output: bytes | memoryview) -> str:
    return bytes(output).decode(errors="replace")


def _patch(connection: vms.Connection, changes: tuple[FilePatch, ...], time: int) -> None:
    """Patch the files of the workspace. Raises PatchRefused and VmError."""
    paths = needed_files(changes)
    found: dict[str, PatchedFile] = {}
    if paths:
        try:
            for each in vms.download_files(connection, paths, max_bytes=_MOST_FILE_BYTES, timeout=_FILES_SECONDS):
                found[each.path] = PatchedFile(b"".join(each.chunks), each.executable)
        except vms.InvalidDownload as error:
            raise PatchRefused(f"the files that the patch changes cannot be read: {error}") from error
    changed = apply_patch(changes, found)
    written = {path: (each.content, each.executable) for path, each in changed.items() if each is not None}
    removed = [path for path, each in changed.items() if each is None]
    vms.change_files(connection, written, removed, time=time, timeout=_FILES_SECONDS)


def _reports(connection: vms.Connection, paths: tuple[str, ...]) -> dict[str, bytes]:
    """Return what a run has written to these files, without missing ones and those beyond a bound.

    Raises VmError.
    """
    taken: dict[str, bytes] = {}
    with suppress(vms.InvalidDownload):  # as for files that are missing, which tar says at its end
        for each in vms.download_files(connection, paths, max_bytes=_MOST_REPORT_BYTES, timeout=_FILES_SECONDS):
            if each.path in paths:
                taken[each.path] = taken.get(each.same_as or "", b"") or b"".join(each.chunks)
    return taken


@contextmanager
def watched(forks: Forks, fork: Fork, seconds: float, gone: Callable[[], bool]) -> Iterator[None]:
    """Abandon the VM if its time is up, nobody waits for it any more, or it fills its disk or the host's.

    Raises RunFailed then, and if the VM is lost.
    """
    stopped = threading.Event()
    why: list[str] = []
    deadline = forks.clock.monotonic() + seconds

    def watch() -> None:
        use = DiskUse(written=0, free=forks.free_bytes())
        min_free = forks.settings.jobs.min_free_bytes
        measured = beat = forks.clock.monotonic()
        while not stopped.wait(_LOOK_SECONDS):
            now = forks.clock.monotonic()
            if now - beat >= _BEAT_SECONDS:
                beat = now
                forks.lengthen(fork, FORK_SECONDS)
            if now >= deadline:
                why.append("its VM did not end it in time")
            elif gone():
                why.append("nobody waits for it any more")
            elif now - measured >= seconds_to_full(use, fork.lease.shape, min_free=min_free):
                use, measured = DiskUse(forks.written(fork.lease), forks.free_bytes()), now
                failure = disk_failure(use, fork.lease.shape)
                if failure is not None or use.free < min_free:
                    why.append("it filled the disk of its VM, or the host's")
            if why:
                fork.link.abandon()
                return

    thread = threading.Thread(target=watch, name="fork-watch", daemon=True)
    thread.start()
    try:
        yield
    except (vms.VmError, Abandoned) as error:
        raise RunFailed(f"the command was ended: {why[0] if why else error}") from error
    finally:
        stopped.set()
        thread.join()
