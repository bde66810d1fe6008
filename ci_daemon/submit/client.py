"""A client of the API: the calls that submitting and following a build need."""

from __future__ import annotations

import base64
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, urlsplit

import httpx
from pydantic import TypeAdapter, ValidationError

from ci_daemon.submit.failures import RequestFailed, ServiceUnreachable
from ci_daemon.submit.views import (
    BuildView,
    JobList,
    JobView,
    PipelineView,
    Transaction,
    TransactionPage,
    UserView,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from ci_daemon.submit.packing import Archive

__all__ = ["Client", "pipeline_path"]

T = TypeVar("T")

_TIMEOUT = httpx.Timeout(30.0, connect=10.0)
_RENDER_TIMEOUT = httpx.Timeout(630.0, connect=10.0)


class Client:
    """Calls the service at ``url`` as the owner of ``token``.

    Thread-safe. All methods raise RequestFailed if the service refuses, and ServiceUnreachable.
    """

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        self._http = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}", "User-Agent": f"ci-daemon/{version('ci-daemon')}"},
            timeout=_TIMEOUT,
            # Requests to this machine bypass the environment's proxy.
            trust_env=urlsplit(url).hostname not in {"127.0.0.1", "::1", "localhost"},
        )

    def personal_organization(self) -> str:
        """Return the slug of the caller's own organization."""
        return self._read("/api/v0/user", UserView).personal_org_slug

    def has_pipeline(self, organization: str, pipeline: str) -> bool:
        """Tell whether the organization has a pipeline of that slug."""
        try:
            self._read(pipeline_path(organization, pipeline), PipelineView)
        except RequestFailed as error:
            if error.code == "pipeline_not_found":
                return False
            raise
        return True

    def create_pipeline(self, organization: str, name: str, *, repository: str, default_branch: str) -> str:
        """Create a pipeline and return its slug."""
        body = {"name": name, "repository": repository, "default_branch": default_branch}
        path = pipeline_path(organization, "").rstrip("/")
        return self._send("POST", path, PipelineView, body=body).slug

    def delete_pipeline(self, organization: str, pipeline: str) -> None:
        """Delete a pipeline. Only an admin of the organization may."""
        _raise_for_error(self._send_request(self._http.build_request("DELETE", pipeline_path(organization, pipeline))))

    def create_build(self, organization: str, pipeline: str, body: Mapping[str, object], source: Archive) -> BuildView:
        """Post a build with its source and return its record.

        Without IR in the body, the service renders the source first: that may take minutes.
        """
        archive = {"source_b64": base64.b64encode(source.data).decode(), "source_sha256": source.sha256}
        path = f"{pipeline_path(organization, pipeline)}/builds"
        return self._send("POST", path, BuildView, body={**body, **archive}, timeout=_RENDER_TIMEOUT)

    def cancel(self, path: str) -> None:
        """Cancel the build whose record is at ``path``; one that is over stays as it is."""
        self._send("PUT", f"{path}/cancel", BuildView)

    def build(self, path: str) -> BuildView:
        """Return the build whose record is at ``path``."""
        return self._read(path, BuildView)

    def jobs(self, build_path: str) -> list[JobView]:
        """Return the build's jobs in DAG creation order."""
        return self._read(f"{build_path}/jobs", JobList).data

    def job(self, build_path: str, job_id: str) -> JobView:
        """Return one of the build's jobs."""
        return self._read(f"{build_path}/jobs/{quote(job_id, safe='')}", JobView)

    def debits_since(self, organization: str, since: datetime) -> Iterator[Transaction]:
        """Yield the organization's debits for jobs, newest first, back to an instant."""
        params = {"limit": "100"}
        while True:
            page = self._read(f"/api/v0/billing/transactions/{quote(organization, safe='')}", TransactionPage, params)
            for entry in page.data:
                if entry.created_at < since:
                    return
                if entry.source == "vm_lease_debit":
                    yield entry
            if page.next_cursor is None:
                return
            params["cursor"] = page.next_cursor

    @contextmanager
    def log(self, path: str, start: int, wait: int) -> Iterator[tuple[Iterator[bytes], bool]]:
        """Open a job's log from byte ``start`` on, waiting up to ``wait`` seconds for a first byte.

        Yields an iterator of chunks of bytes as they arrive, and whether they are the last of the log.
        """
        request = self._http.build_request(
            "GET", path, params={"wait": wait}, headers={"Range": f"bytes={start}-"}, timeout=wait + 30.0
        )
        response = self._send_request(request, stream=True)
        try:
            complete = response.headers.get("X-Log-Complete") == "true"
            if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
                yield iter(()), complete
            else:
                _raise_for_error(response)
                yield response.iter_bytes(), complete
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        finally:
            response.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _read(self, path: str, view: type[T], params: Mapping[str, str] | None = None) -> T:
        return self._send("GET", path, view, params=params)

    def _send(
        self,
        method: str,
        path: str,
        view: type[T],
        *,
        body: Mapping[str, object] | None = None,
        params: Mapping[str, str] | None = None,
        timeout: httpx.Timeout = _TIMEOUT,
    ) -> T:
        response = self._send_request(self._http.build_request(method, path, json=body, params=params, timeout=timeout))
        _raise_for_error(response)
        try:
            return TypeAdapter(view).validate_json(response.content)
        except ValidationError as error:
            message = f"the answer of {self.url} is not that of a ci-daemon: check CI_DAEMON_URL"
            raise RequestFailed(response.status_code, "unknown", message) from error

    def _send_request(self, request: httpx.Request, *, stream: bool = False) -> httpx.Response:
        try:
            return self._http.send(request, stream=stream)
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> ServiceUnreachable:
        return ServiceUnreachable(
            f"no service answers at {self.url} ({error}): start the service, or set CI_DAEMON_URL to where it runs"
        )


def pipeline_path(organization: str, pipeline: str) -> str:
    """Return the path of a pipeline's record."""
    return f"/api/v0/organizations/{quote(organization, safe='')}/pipelines/{quote(pipeline, safe='')}"


def _raise_for_error(response: httpx.Response) -> None:
    """Raise RequestFailed with the service's message if the response is not a success."""
    if response.is_success:
        return
    response.read()
    try:
        error = response.json()["error"]
        code, message = str(error["code"]), str(error["message"])
    except (ValueError, LookupError, TypeError):
        code, message = (
            "unknown",
            f"{response.request.url} answered with status {response.status_code} and no error message",
        )
    raise RequestFailed(response.status_code, code, message)
