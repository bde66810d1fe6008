"""A job's log as bytes (wire-decisions.md, "Logs and artifacts")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from api.logs.ranges import ERRORS, PARAMETERS, PART, WHOLE, GrowingLog, LogRanges
from api.openapi.operations import operation

if TYPE_CHECKING:
    import falcon

    from api.logs.access import LogAccess, ReadableLog
    from api.request import ApiRequest
    from storage import Storage


class JobLogResource:
    """``…/jobs/{job_id}/log``."""

    def __init__(self, storage: Storage, access: LogAccess, ranges: LogRanges) -> None:
        self._storage = storage
        self._access = access
        self._ranges = ranges

    @operation("getJobLog", WHOLE, PART, errors=(*ERRORS, "job_not_found"), parameters=PARAMETERS, security="log_token")
    def on_get(self, req: ApiRequest, resp: falcon.Response, org: str, pipeline: str, number: str, job_id: str) -> None:
        """Get a job's log as it is now, or a range of it."""
        readable = self._access.by_path(req, org, pipeline, number, job_id)
        log = self._storage.logs.reader(readable.build.uuid, readable.job.uuid)
        growing = GrowingLog(
            log,
            readable.job.uuid,
            ended=lambda: self._ended(readable),
            reader=lambda: self._access.reader(req, readable.build),
        )
        self._ranges.answer(req, resp, growing)

    def _ended(self, readable: ReadableLog) -> bool:
        job = self._storage.jobs.get(readable.job.id)
        return job is None or job.state.terminal
