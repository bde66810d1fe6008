"""The calls of the API that submitting a build needs."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from api.operations import billing, builds, pipelines, user
from ci_daemon.remote.connection import Connection
from ci_daemon.remote.errors import RequestFailed
from storage import LedgerSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from api.operations import BuildRecord
    from ci_daemon.submit.packing import Archive

_RENDER_SECONDS = 630.0


class Client:
    """Submits builds to the service at ``url`` as the owner of ``token``.

    Thread-safe. All methods raise RequestFailed if the service refuses, and ServiceUnreachable.
    """

    def __init__(self, url: str, token: str) -> None:
        self.connection = Connection(url, token)

    def personal_organization(self) -> str:
        """Return the slug of the caller's own organization."""
        return self.connection.perform(user.get_current_user, {}).personal_org_slug

    def has_pipeline(self, organization: str, pipeline: str) -> bool:
        """Tell whether the organization has a pipeline of that slug."""
        try:
            self.connection.perform(pipelines.get_pipeline, {"org": organization, "pipeline": pipeline})
        except RequestFailed as error:
            if error.code == "pipeline_not_found":
                return False
            raise
        return True

    def build_count(self, organization: str, pipeline: str) -> int:
        """Return the number of a pipeline's builds."""
        return self.connection.perform(pipelines.get_pipeline, {"org": organization, "pipeline": pipeline}).build_count

    def create_pipeline(self, organization: str, name: str, *, repository: str, default_branch: str) -> str:
        """Create a pipeline and return its slug."""
        body = {"name": name, "repository": repository, "default_branch": default_branch}
        return self.connection.perform(pipelines.create_pipeline, {"org": organization}, body).slug

    def delete_pipeline(self, organization: str, pipeline: str) -> None:
        """Delete a pipeline. Only an admin of the organization may."""
        self.connection.perform(pipelines.delete_pipeline, {"org": organization, "pipeline": pipeline})

    def create_build(
        self,
        organization: str,
        pipeline: str,
        body: Mapping[str, object],
        source: Archive,
        sent: Callable[[float], None],
    ) -> BuildRecord:
        """Post a build with its source and return its record.

        ``sent`` gets the share of the request that is on its way, up to 1.
        Without IR in the body, the service renders the source first: that may take minutes.
        """
        archive = {"source_b64": base64.b64encode(source.data).decode(), "source_sha256": source.sha256}
        return self.connection.perform(
            builds.create_build,
            {"org": organization, "pipeline": pipeline},
            {**body, **archive},
            seconds=_RENDER_SECONDS,
            sent=sent,
        )

    def debits_since(self, organization: str, since: datetime) -> Iterator[billing.Transaction]:
        """Yield the organization's debits for jobs, newest first, back to an instant."""
        for entry in self.connection.rows(billing.list_transactions, {"org": organization}):
            if entry.created_at < since:
                return
            if entry.source is LedgerSource.VM_LEASE_DEBIT:
                yield entry

    def close(self) -> None:
        """Close the connections."""
        self.connection.close()
