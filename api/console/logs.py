"""The page of a job with its log, and what its script asks for besides bytes."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from api.bodies import answer
from api.console.builds.debugging import held_vms, shell_line
from api.console.builds.failures import siblings_of
from api.console.errors import Page
from api.console.previews import shown_preview
from api.engine import waiting_reason
from api.errors.catalog import ApiError
from api.operations.things import job_in_build
from storage import GateState, JsonModel, immutable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import falcon

    from api.console.site import Site
    from api.http.files import ByteSource
    from api.http.slots import StreamSlots
    from api.logs.access import LogAccess, ReadableLog
    from storage import Build, ForkTerminal, Job, JobLog


_SHOWN_BYTES = 32 * 2**10
_MOST_FOUND = 5000
_MOST_ANNOTATIONS = 100
_LONGEST_SEARCH = 200
_MOST_TIMED_BYTES = 4 * 2**20
_FIRST_OUTLINED_BYTES = 4 * 2**20
_MOST_OUTLINED_BYTES = 32 * 2**20
"""The first part of an outline is short: a page waits for it. Each later one is as long as all before."""

_OUTLINES = 64
_SEARCHES = 2
_SEARCH_SECONDS = 20.0
_OFFSET = re.compile(r"[0-9]{1,15}", re.ASCII)

_PIECE_BYTES = 2**20
_MOST_GROUPS = 2000
_LONGEST_PART = 4096
_MARK = re.compile(rb"^(?:\x1b\[[0-9;]*m)*::(?:(end)group::|group::([^\r\n]{0,200}))", re.MULTILINE)
_SEARCHED_BYTES = 2**20


class JobPage(Page):
    """``…/builds/{number}/jobs/{job_id}``."""

    def __init__(self, site: Site, access: LogAccess) -> None:
        self._site = site
        self._access = access

    def on_get(
        self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, number: str, job_id: str
    ) -> None:
        """Show the job and the end of its log, which the script then replaces by a view of the whole log."""
        site = self._site
        build = site.access.readable_build(req, org, pipeline, number)
        job = job_in_build(site.storage, build, job_id)
        asked = None if job.environment is None else site.storage.gates.of_job(job.id)
        its_pipeline = site.storage.pipelines.by_id(build.pipeline_id)
        tail, size, gone = "", 0, ""
        try:
            readable = self._access.by_path(req, org, pipeline, number, job_id)
            log = site.storage.logs.reader(readable.build.uuid, readable.job.uuid)
            size = log.size()
            tail = log.read(max(0, size - _SHOWN_BYTES), _SHOWN_BYTES).decode("utf-8", "replace")
        except ApiError as error:
            if error.problem.code != "log_expired":
                raise
            gone = error.message
        site.pages.show(
            req,
            resp,
            "logs/job",
            build=build,
            pipeline_name="" if its_pipeline is None else its_pipeline.name,
            job=job,
            why=waiting_reason(site.storage, site.engine, job, asked) or "",
            asked=asked,
            waits=asked is not None and asked.state is GateState.WAITING and not job.state.terminal,
            tail=tail,
            size=size,
            cut=size > _SHOWN_BYTES,
            first_bytes=min(size, BLOCK_BYTES) if job.state.terminal else 0,
            gone=gone,
            siblings=siblings_of(site.storage.jobs.of_build(build.id), job.uuid),
            outputs=site.storage.told.outputs(job.id),
            annotations=site.storage.told.annotations(build.id, _MOST_ANNOTATIONS, step=job.step_key),
            **self._for_members(req, build, job),
        )

    def _for_members(self, req: falcon.Request, build: Build, job: Job) -> dict[str, object]:
        """Return for members the lease of the VM, the line that opens a shell in it, and the VM that is held."""
        if not self._site.is_member(req, build.organization_id):
            return {
                "member": False,
                "lease": None,
                "amount": "",
                "shell": "",
                "held": [],
                "may_retry": False,
                "has_disk": False,
                "terminals": [],
                "shown": None,
                "form_token": "",
            }
        held = held_vms(self._site.storage, build) if build.debug else []
        lease = self._site.storage.leases.of_job(job.id)
        return {
            "member": True,
            "lease": lease,
            "amount": "" if lease is None or lease.finished_at is None else self._site.amount(lease.amount_cents),
            "shell": "" if job.state.terminal else shell_line(build, job),
            "held": [each for each in held if each.job.id == job.id],
            "may_retry": build.state.terminal and job.state.failed and not job.soft_failed,
            "has_disk": self._site.storage.kept_disks.of_job(job.id) is not None,
            "terminals": self._terminals(req, job),
            "shown": shown_preview(self._site, job),
            "form_token": self._site.form_token(req),
        }

    def _terminals(self, req: falcon.Request, job: Job) -> list[ForkTerminal]:
        """Return the terminals that the reader has open on the disk of a job."""
        caller = self._site.access.caller(req)
        there = self._site.storage.terminals.open()
        return [each for each in there if each.job_id == job.id and each.user_id == caller.user.id]


class LogParts:
    """The outline, search and times of ``…/jobs/{job_id}/log``. Safe in any thread."""

    def __init__(self, site: Site, access: LogAccess, slots: StreamSlots) -> None:
        self._site = site
        self._access = access
        self._slots = slots
        self._lock = threading.Lock()
        self._searches = threading.BoundedSemaphore(_SEARCHES)
        self._outlines: OrderedDict[str, LogOutline] = OrderedDict()

    def on_get_outline(
        self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, number: str, job_id: str
    ) -> None:
        """Return the number of lines of each block, and the groups."""
        readable, log = self._log(req, org, pipeline, number, job_id)
        job = self._site.storage.jobs.get(readable.job.id)
        complete = job is None or job.state.terminal
        size = log.size()
        outline = self._take(readable.job.uuid)
        if outline.size > size:
            outline = LogOutline()
        part = min(max(_FIRST_OUTLINED_BYTES, outline.size), _MOST_OUTLINED_BYTES)
        outline.extend(log, min(size, outline.size + part))
        _time(outline.groups, log)
        record = OutlineRecord(
            size=outline.size,
            block=BLOCK_BYTES,
            newlines=list(outline.newlines),
            groups=[
                GroupRecord(title=each.title, first=each.first, last=each.last, seconds=each.seconds)
                for each in outline.groups
            ],
            ends_in_break=outline.ends_in_break,
            complete=complete,
            more=outline.size < size,
        )
        self._keep(readable.job.uuid, outline)
        resp.cache_control = ["no-store"]
        answer(resp, record)

    def on_get_search(
        self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, number: str, job_id: str
    ) -> None:
        """Return the lines that have the text ``q``. A search holds a stream slot."""
        text = req.get_param("q") or ""
        if not text or len(text) > _LONGEST_SEARCH:
            raise ApiError("malformed_request", f"q: expected 1 to {_LONGEST_SEARCH} characters")
        readable, log = self._log(req, org, pipeline, number, job_id)
        slot = self._slots.acquire_for_reader(self._access.reader(req, readable.build))
        if slot is None:
            raise ApiError("too_many_streams", "too many logs are read at once; try again soon")
        try:
            # Few at once, because a search holds the interpreter for most of its time.
            if not self._searches.acquire(timeout=_SEARCH_SECONDS):
                raise ApiError("busy", "many logs are searched now; try again soon", headers={"Retry-After": "5"})
            try:
                found = search(log, log.size(), text, _MOST_FOUND)
            finally:
                self._searches.release()
        finally:
            slot.release()
        resp.cache_control = ["no-store"]
        answer(resp, SearchRecord(count=found.count, lines=list(found.lines)))

    def on_get_times(
        self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, number: str, job_id: str
    ) -> None:
        """Return when the bytes from ``first`` up to ``end`` were written: pairs of an end and a time."""
        first, end = _offset(req, "first"), _offset(req, "end")
        _, log = self._log(req, org, pipeline, number, job_id)
        until = min(end, first + _MOST_TIMED_BYTES)
        times: list[tuple[int, int]] = []
        for chunk in log.chunks(first):
            times.append((chunk.seq, chunk.time_ns // 1_000_000))
            if chunk.seq >= until:
                break
        resp.cache_control = ["no-store"]
        answer(resp, TimesRecord(times=times))

    def _take(self, uuid: str) -> LogOutline:
        """Take out a log's outline, for one thread alone; a new one if there is none here."""
        with self._lock:
            return self._outlines.pop(uuid, None) or LogOutline()

    def _keep(self, uuid: str, outline: LogOutline) -> None:
        with self._lock:
            self._outlines[uuid] = outline
            while len(self._outlines) > _OUTLINES:
                self._outlines.popitem(last=False)

    def _log(
        self, req: falcon.Request, org: str, pipeline: str, number: str, job_id: str
    ) -> tuple[ReadableLog, JobLog]:
        readable = self._access.by_path(req, org, pipeline, number, job_id)
        return readable, self._site.storage.logs.reader(readable.build.uuid, readable.job.uuid)


def _time(groups: Sequence[Group], log: JobLog) -> None:
    """Look up how long groups took that have ended, each once."""
    for group in groups:
        if group.last is not None and group.seconds is None:
            begun, ended = _written(log, group.begin), _written(log, group.end)
            group.seconds = max(0.0, (ended - begun) / 1e9) if begun and ended else 0.0


def _written(log: JobLog, offset: int) -> int:
    """Return when the byte at an offset was written, in nanoseconds since the epoch; 0 if it was not."""
    return next((chunk.time_ns for chunk in log.chunks(offset)), 0)


def _offset(req: falcon.Request, name: str) -> int:
    text = req.get_param(name) or ""
    if not _OFFSET.fullmatch(text):
        raise ApiError("malformed_request", f"{name}: expected an offset in bytes")
    return int(text)


BLOCK_BYTES = 64 * 2**10


@dataclass(slots=True)
class Group:
    """Lines from ``::group::TITLE`` to ``::endgroup::``, from 0; ``last`` is None if it has no end yet.

    ``begin`` and ``end`` are the offsets of both marks; ``seconds`` is how long it took, once that was looked up.
    """

    title: str
    first: int
    last: int | None = None
    begin: int = 0
    end: int = 0
    seconds: float | None = None


@dataclass(slots=True)
class LogOutline:
    """The outline of the first ``size`` bytes of a log. Not safe in several threads at once.

    ``newlines`` has the number of line breaks in each block of ``BLOCK_BYTES``, so that a line is found without reading
    the log up to it.
    """

    size: int = 0
    newlines: list[int] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    ends_in_break: bool = False
    _open: list[Group] = field(default_factory=list)
    _lines: int = 0
    _part: bytes = b""
    _begun: int = 0
    """The offset at which the line begins whose first part is kept."""

    def extend(self, log: ByteSource, size: int) -> None:
        """Read on up to a size."""
        while self.size < size:
            data = log.read(self.size, min(_PIECE_BYTES, size - self.size))
            if not data:
                return
            self._find_groups(data)
            self._lines += self._count(data)
            self.size += len(data)
            self.ends_in_break = data.endswith(b"\n")

    def _count(self, data: bytes) -> int:
        """Note the line breaks of each block; return how many there are."""
        at = breaks = 0
        while at < len(data):
            block, within = divmod(self.size + at, BLOCK_BYTES)
            end = min(len(data), at + BLOCK_BYTES - within)
            if block == len(self.newlines):
                self.newlines.append(0)
            found = data.count(b"\n", at, end)
            self.newlines[block] += found
            breaks += found
            at = end
        return breaks

    def _find_groups(self, data: bytes) -> None:
        """Note the groups that begin or end in whole lines; the rest of the last line waits for more."""
        end = data.rfind(b"\n") + 1
        if not end:
            self._part = (self._part + data)[:_LONGEST_PART]
            return
        text = self._part + data[:end]
        held, begun = len(self._part), self._begun
        if b"group::" in text:
            at, line = 0, self._lines
            for mark in _MARK.finditer(text):
                line += text.count(b"\n", at, mark.start())
                at = mark.start()
                offset = begun + at if at < held else self.size + at - held
                self._note(line, mark, offset)
        self._part = data[end : end + _LONGEST_PART]
        self._begun = self.size + end

    def _note(self, line: int, mark: re.Match[bytes], offset: int) -> None:
        if mark[1]:
            if self._open:
                group = self._open.pop()
                group.last, group.end = line, offset
        elif len(self.groups) < _MOST_GROUPS:
            group = Group(mark[2].decode("utf-8", "replace").strip(), line, begin=offset)
            self.groups.append(group)
            self._open.append(group)


@immutable
class Found:
    """The number of lines that have the text, and which are the first of them, from 0."""

    count: int
    lines: tuple[int, ...]


def search(log: ByteSource, size: int, text: str, most: int) -> Found:
    """Return the lines of a log's first ``size`` bytes that have a text; the case of ASCII is ignored.

    Of a line that is longer than a piece, only its pieces are searched.
    """
    wanted = text.encode().lower()
    lines: list[int] = []
    count = line = at = 0
    rest = b""
    while at < size:
        data = log.read(at, min(_SEARCHED_BYTES, size - at))
        if not data:
            break
        at += len(data)
        piece = rest + data.lower()
        end = piece.rfind(b"\n") + 1 if at < size and len(rest) < _SEARCHED_BYTES else len(piece)
        piece, rest = piece[:end], piece[end:]
        counted = 0
        found = piece.find(wanted)
        while found >= 0:
            line += piece.count(b"\n", counted, found)
            counted = found
            count += 1
            if len(lines) < most:
                lines.append(line)
            after = piece.find(b"\n", found)
            found = piece.find(wanted, after) if after >= 0 else -1
        line += piece.count(b"\n", counted)
    return Found(count, tuple(lines))


class GroupRecord(JsonModel):
    """A group of lines, from 0; ``last`` and ``seconds`` are null while it has no end."""

    title: str
    first: int
    last: int | None
    seconds: float | None


class OutlineRecord(JsonModel):
    """The line breaks in each block of the log's first ``size`` bytes.

    With ``more`` there are bytes after those, which the next request reads. ``complete`` if the log does not grow.
    """

    size: int
    block: int
    newlines: list[int]
    groups: list[GroupRecord]
    ends_in_break: bool
    complete: bool
    more: bool


class SearchRecord(JsonModel):
    """The number of lines that have the text, and the first of them, from 0."""

    count: int
    lines: list[int]


class TimesRecord(JsonModel):
    """For pieces of the log their end and their time in milliseconds since the epoch."""

    times: list[tuple[int, int]]
