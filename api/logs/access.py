"""Access to logs: with a log token, as a member, or because the pipeline is public."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from api.errors.catalog import ApiError
from api.http.slots import LogReader
from api.operations.things import job_in_build
from storage import immutable

if TYPE_CHECKING:
    import falcon

    from api.middleware.authentication import Access
    from api.middleware.client_addresses import ClientAddresses
    from api.middleware.rate_limits import RateLimits
    from api.signing import LogGrant, LogTokens
    from storage import Build, Job, JobLog, LogFiles, Storage

_log = logging.getLogger(__name__)


@immutable
class ReadableLog:
    """A job whose log the caller may read, and its build; with a ``service`` it is the log of that."""

    build: Build
    job: Job
    service: str | None = None

    def of(self, logs: LogFiles) -> JobLog:
        """Return the log."""
        return logs.of(self.build.uuid, self.job.uuid, self.service)

    def of_service(self, name: str) -> ReadableLog:
        """Return the log of a service of the job. Raises ApiError ``service_not_found``."""
        if name not in self.job.services:
            raise ApiError.not_found("service", name)
        return ReadableLog(self.build, self.job, name)


class LogAccess:
    """Finds the log that a request is for, if the caller may read it. Safe in any thread."""

    def __init__(
        self, storage: Storage, access: Access, tokens: LogTokens, limits: RateLimits, addresses: ClientAddresses
    ) -> None:
        self._storage = storage
        self._access = access
        self._tokens = tokens
        self._limits = limits
        self._addresses = addresses

    def reader(self, req: falcon.Request, build: Build) -> LogReader:
        """Return the reader whose share of the stream slots a request uses. Raises ApiError."""
        token = req.get_param("token")
        if token is not None:
            return LogReader(self._grant(req, token).user, public=False)
        caller = self._access.optional_caller(req)
        if caller is None:
            return LogReader(self._addresses.network(req), public=True)
        return LogReader(caller.user.uuid, public=not self._access.is_member(caller, build.organization_id))

    def by_path(self, req: falcon.Request, org: str, pipeline: str, number: str, job_id: str) -> ReadableLog:
        """Return the log of the job that a full path names. Raises ApiError."""
        build = self._readable(req, org, pipeline, number)
        return self._existing_log(build, job_in_build(self._storage, build, job_id))

    def by_build(self, req: falcon.Request, org: str, pipeline: str, number: str) -> Build:
        """Return a build whose render log the caller may read. Raises ApiError."""
        build = self._readable(req, org, pipeline, number)
        _refuse_expired(build)
        return build

    def by_job(self, req: falcon.Request, job_id: str) -> ReadableLog:
        """Return the log of the job with an id. Raises ApiError."""
        token = req.get_param("token")
        allowed = None if token is None else self._grant(req, token).build
        caller = None if token is not None else self._access.optional_caller(req)
        job = self._storage.jobs.by_uuid(job_id)
        build = None if job is None else self._storage.builds.get(job.build_id)
        if token is None and caller is None and (build is None or not self._access.may_read(None, build)):
            raise ApiError.unauthorized("send a log token as ?token=", "log_stream_unauthorized")
        if token is not None and (build is None or build.uuid != allowed):
            raise _forbidden()  # also for a job that does not exist: a token tells nothing of other builds
        if job is None or build is None:
            raise ApiError.not_found("job", job_id)
        if token is None and not self._access.may_read(caller, build):
            raise ApiError.not_found("job", job_id)
        return self._existing_log(build, job)

    def _existing_log(self, build: Build, job: Job) -> ReadableLog:
        """Return a job's log. Raises ApiError ``log_expired`` if it is gone.

        It is gone if it expired, or if a command ran to its end and the log's files are missing.
        """
        _refuse_expired(build)
        if job.state.terminal and job.exit_code is not None and not job.cache_hit:
            log = self._storage.logs.reader(build.uuid, job.uuid)
            if not log.exists():
                _log.warning("the log of job %s is missing on the disk: %s", job.uuid, log.directory)
                raise log_missing()
        return ReadableLog(build, job)

    def _readable(self, req: falcon.Request, org: str, pipeline: str, number: str) -> Build:
        """Return a build whose logs the caller may read."""
        token = req.get_param("token")
        if token is None:
            return self._access.readable_build(req, org, pipeline, number)
        allowed = self._grant(req, token).build
        build = self._access.build_by_path(org, pipeline, number)
        if build is None or build.uuid != allowed:
            raise _forbidden()
        return build

    def _grant(self, req: falcon.Request, token: str) -> LogGrant:
        """Return a log token's grant.

        Raises ApiError ``log_stream_unauthorized``, or ``rate_limited`` after too many bad tokens from one address.
        """
        grant = self._tokens.open(token)
        if grant is None:
            self._limits.limit_failures(req)
            raise ApiError.unauthorized("the log token is invalid or has expired", "log_stream_unauthorized")
        return grant


def log_missing() -> ApiError:
    """Return the error for a log that is missing from the disk."""
    return ApiError("log_expired", "the files of this log are no longer on the service's disk")


def _refuse_expired(build: Build) -> None:
    if build.logs_expired_at is not None:
        when = build.logs_expired_at.date().isoformat()
        raise ApiError("log_expired", f"the logs of this build were deleted on {when}, when their retention ended")


def _forbidden() -> ApiError:
    return ApiError("log_stream_forbidden", "the log token is for another build")
