"""Access to logs: with a log token, as a member, or because the pipeline is public."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from api.errors import ApiError
from api.jobs import job_in_build
from api.streams import Reader

if TYPE_CHECKING:
    import falcon

    from api.access import Access
    from api.addresses import Addresses
    from api.log_tokens import LogGrant, LogTokens
    from storage import Build, Job, Storage

__all__ = ["LogAccess", "ReadableLog", "log_vanished"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReadableLog:
    """A job whose log the caller may read, and its build."""

    build: Build
    job: Job


class LogAccess:
    """Finds the log that a request is for, if the caller may read it. Safe in any thread."""

    def __init__(self, storage: Storage, access: Access, tokens: LogTokens, addresses: Addresses) -> None:
        self._storage = storage
        self._access = access
        self._tokens = tokens
        self._addresses = addresses

    def reader(self, req: falcon.Request, build: Build) -> Reader:
        """Return the reader whose share of the stream slots a request uses. Raises ApiError."""
        token = req.get_param("token")
        if token is not None:
            return Reader(self._grant(token).user, public=False)
        caller = self._access.caller_if_any(req)
        if caller is None:
            return Reader(self._addresses.of(req), public=True)
        return Reader(caller.user.uuid, public=not self._access.belongs(caller, build.organization_id))

    def by_path(self, req: falcon.Request, org: str, pipeline: str, number: str, job_id: str) -> ReadableLog:
        """Return the log of the job that a full path names. Raises ApiError."""
        build = self._readable(req, org, pipeline, number)
        return self._kept(build, job_in_build(self._storage, build, job_id))

    def by_build(self, req: falcon.Request, org: str, pipeline: str, number: str) -> Build:
        """Return a build whose render log the caller may read. Raises ApiError."""
        build = self._readable(req, org, pipeline, number)
        _refuse_expired(build)
        return build

    def by_job(self, req: falcon.Request, job_id: str) -> ReadableLog:
        """Return the log of the job with an id. Raises ApiError."""
        token = req.get_param("token")
        allowed = None if token is None else self._grant(token).build
        caller = None if token is not None else self._access.caller_if_any(req)
        job = self._storage.jobs.by_uuid(job_id)
        build = None if job is None else self._storage.builds.get(job.build_id)
        if token is None and caller is None and (build is None or not self._access.may_read(None, build)):
            raise ApiError.unauthorized("give a log token as ?token=", "log_stream_unauthorized")
        if job is None or build is None:
            raise ApiError.not_found("job", job_id)
        if token is not None and build.uuid != allowed:
            raise _forbidden()
        if token is None and not self._access.may_read(caller, build):
            raise ApiError.not_found("job", job_id)
        return self._kept(build, job)

    def _kept(self, build: Build, job: Job) -> ReadableLog:
        """Return a job's log. Raises ApiError ``log_expired`` if it is gone.

        It is gone if it expired, or if a command ran to its end and the log's files are missing.
        """
        _refuse_expired(build)
        if job.state.terminal and job.exit_code is not None and not job.cache_hit:
            log = self._storage.logs.reader(build.uuid, job.uuid)
            if not log.exists():
                _log.warning("the log of job %s is gone from the disk: %s", job.uuid, log.directory)
                raise log_vanished()
        return ReadableLog(build, job)

    def _readable(self, req: falcon.Request, org: str, pipeline: str, number: str) -> Build:
        """Return a build whose logs the caller may read."""
        token = req.get_param("token")
        if token is None:
            return self._access.readable_build(req, org, pipeline, number)
        allowed = self._grant(token).build
        build = self._access.named_build(org, pipeline, number)
        if build is None or build.uuid != allowed:
            raise _forbidden()
        return build

    def _grant(self, token: str) -> LogGrant:
        grant = self._tokens.open(token)
        if grant is None:
            raise ApiError.unauthorized("the log token is not valid, or its hour is over", "log_stream_unauthorized")
        return grant


def log_vanished() -> ApiError:
    """Return the error for a log that is missing from the disk."""
    return ApiError("log_expired", "the job ran and the files of its log are no longer on the service's disk")


def _refuse_expired(build: Build) -> None:
    if build.logs_expired_at is not None:
        when = build.logs_expired_at.date().isoformat()
        raise ApiError("log_expired", f"the logs of this build were removed on {when}, as they are kept no longer")


def _forbidden() -> ApiError:
    return ApiError("log_stream_forbidden", "the log token is for another build")
