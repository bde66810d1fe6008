"""GitHub, as a source host."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pydantic import ValidationError

from actors.source_hosts.github import payloads
from actors.source_hosts.github.api import GithubNotFound
from actors.source_hosts.github.check_runs import (
    MOST_ANNOTATIONS,
    NO_REMARKS,
    TAIL_BYTES,
    FinishedStep,
    Remarks,
    check_run,
    commit_run,
    skipped_run,
)
from actors.source_hosts.github.installations import Installations
from actors.source_hosts.host import (
    MOST_OPEN,
    DeliveryInvalid,
    DeliveryUnsigned,
    HostError,
    HostNotConfigured,
    Received,
    ReportState,
)
from actors.source_hosts.payloads import AnyObject, if_open
from actors.source_hosts.settings import GITHUB
from actors.test_reports import NO_TESTS, SourceFiles, source_files, test_results
from storage import AnnotationLevel, GitCredential

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from actors.source_hosts.github.api import GithubApi
    from actors.source_hosts.host import CommitReport, HostEvent, PullRequest, Report, Skip
    from actors.source_hosts.settings import GithubAppSettings
    from storage import Build, CommitCheck, Delivery, HostConnection, Job, Repository, Storage

_DELIVERY_ID = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)
_EVENT = re.compile(r"[a-z0-9_]{1,100}", re.ASCII)
_LOOKED_AT = "installation looked at"
_MAY_PUSH = {"admin", "write"}
_MOST_SUMMARIES = 20


class Github:
    """The `SourceHost` of an app at GitHub."""

    provider = GITHUB
    max_bytes = 25 * 2**20
    reports = True

    def __init__(
        self, storage: Storage, settings: GithubAppSettings, api: GithubApi, *, sign_in_proves: bool = False
    ) -> None:
        self.installations = Installations(storage, api, sign_in_proves=sign_in_proves)
        self._storage = storage
        self._settings = settings
        self._api = api

    def receive(self, headers: Mapping[str, str], body: bytes) -> Received:
        """Check a delivery's signature, and find its repository.

        Raises HostNotConfigured, DeliveryInvalid and DeliveryUnsigned.
        """
        if not self._settings.configured:
            raise HostNotConfigured("this service is no GitHub app: `ci-daemon github setup` makes one")
        event = headers.get("X-GITHUB-EVENT", "")
        if not _EVENT.fullmatch(event):
            raise DeliveryInvalid("delivery_event_missing", "X-GitHub-Event: expected the name of an event")
        if not payloads.is_signed(body, self._settings.webhook_secret, headers.get("X-HUB-SIGNATURE-256", "")):
            raise DeliveryUnsigned("X-Hub-Signature-256 is not the signature of this body with the webhook's secret")
        delivery_id = headers.get("X-GITHUB-DELIVERY", "")
        if not _DELIVERY_ID.fullmatch(delivery_id):
            raise DeliveryInvalid("delivery_event_missing", "X-GitHub-Delivery: expected GitHub's id of the delivery")
        try:
            payload = payloads.Payload.model_validate_json(body)
        except ValidationError:
            raise DeliveryInvalid(
                "malformed_json", "the body is no payload in JSON: let GitHub send application/json"
            ) from None
        repository = self._repository(payload) if payload.is_of_repository(event) else None
        if repository is not None and payload.names_other_than(repository.repo_name):
            repository = None  # the report of its new name was lost: its record is brought up to date first
        return Received(event, delivery_id, repository)

    def events(self, delivery: Delivery) -> tuple[HostEvent, ...]:
        """Return what a delivery of a repository reports."""
        return payloads.events(delivery.event, delivery.body)

    def handle(self, delivery: Delivery) -> None:
        """Bring the records of an installation up to date, then give a push its repository."""
        payload = payloads.Payload.model_validate_json(delivery.body)
        if payload.installation is None or (
            delivery.event in {"check_run", "check_suite"} and not payload.is_of_repository(delivery.event)
        ):
            return
        self.installations.changed(str(payload.installation.id))
        if payload.is_of_repository(delivery.event):
            repository = self._repository(payload)
            if repository is not None:
                self._storage.deliveries.assign(delivery, repository)

    def reconcile(self) -> None:
        """Plan to bring the records of every installation up to date."""
        if self._settings.configured:
            for each in self._storage.host_connections.of_provider(GITHUB):
                body = json.dumps({"installation": {"id": int(each.remote_id)}}).encode()
                self._storage.deliveries.receive(GITHUB, _LOOKED_AT, str(uuid4()), None, body)

    def credential(self, repository: Repository) -> GitCredential | None:
        """Return a token that reads this repository alone, for an hour at most. Raises HostError."""
        if not repository.private:
            return None
        connection = self._connection(repository)
        return GitCredential("x-access-token", self._api.fetch_token(connection.remote_id, str(repository.remote_id)))

    def push_credential(self, repository: Repository) -> GitCredential | None:
        """Return a token that writes to this repository alone, for an hour at most. Raises HostError."""
        connection = self._connection(repository)
        try:
            token = self._api.push_token(connection.remote_id, str(repository.remote_id))
        except HostError as error:
            if error.final:
                advice = "set the app's permission Contents to read and write, and accept it for the installation"
                raise HostError(f"{advice}: {error}", final=True) from error
            raise
        return GitCredential("x-access-token", token)

    def renew_credential(self, repository: Repository) -> bool:
        """Let the next fetch or push take a new token: the last one was revoked before its time."""
        return self._api.drop_git_tokens(str(repository.remote_id)) or repository.private

    def trusts(self, repository: Repository, login: str) -> bool:
        """Tell whether somebody may push to a repository. Raises HostError."""
        connection = self._connection(repository)
        try:
            found = self._api.request(
                connection.remote_id, "GET", f"/repos/{repository.repo_name}/collaborators/{login}/permission"
            )
        except GithubNotFound:
            return False
        return found["permission"] in _MAY_PUSH

    def open_pull_requests(self, repository: Repository, number: int | None = None) -> list[PullRequest]:
        """Ask GitHub for the open pull requests. Raises HostError."""
        path, account = f"/repos/{repository.repo_name}/pulls", self._connection(repository).remote_id
        if number is None:
            query = f"state=open&sort=updated&direction=desc&per_page={MOST_OPEN}"
            return payloads.open_pull_requests(self._api.request(account, "GET", f"{path}?{query}"))
        try:
            found = AnyObject.model_validate(self._api.request(account, "GET", f"{path}/{number}"))
        except (GithubNotFound, ValidationError):
            return []
        return payloads.open_pull_requests(each.root for each in if_open(found, "open"))

    def report(self, repository: Repository, report: Report) -> str | None:
        """Make the check run of a build, or bring it up to date. Raises HostError.

        GitHub shows the newest check run of a name, so that one made twice after a crash is hidden. A build that is
        retried gets a new one, because the old one has ended. When the last build of a commit has ended, the check runs
        of the others that passed are brought up to date: any of them may be the one that GitHub shows.
        """
        installation_id = self._connection(repository).remote_id
        path = f"/repos/{repository.repo_name}/check-runs"
        before = report.origin.reported
        ended = before is not None and before.terminal
        if report.origin.report_id is not None and not ended:
            report_id = report.origin.report_id
            self._update(installation_id, f"{path}/{report_id}", report)
        else:
            run = self._run(report)
            made = self._api.request(installation_id, "POST", path, {**run, "head_sha": report.build.commit})
            report_id = str(made["id"])
        for other in self._to_update(report):
            self._update(installation_id, f"{path}/{other.origin.report_id}", other)
        return report_id

    def report_commit(self, repository: Repository, report: CommitReport, told: CommitCheck) -> str | None:
        """Make the check run of all pipelines of a commit, or bring it up to date. Raises HostError.

        One that has ended is replaced by a new one, of which GitHub shows the newest.
        """
        installation_id = self._connection(repository).remote_id
        path = f"/repos/{repository.repo_name}/check-runs"
        run = commit_run(report)
        if told.report_id is not None and told.state is not None and not ReportState(told.state).ended:
            self._api.request(installation_id, "PATCH", f"{path}/{told.report_id}", run)
            return told.report_id
        made = self._api.request(installation_id, "POST", path, {**run, "head_sha": report.commit})
        return str(made["id"])

    def report_skip(self, repository: Repository, skip: Skip) -> None:
        """Make a check run that is skipped, which counts as passed where it is required. Raises HostError."""
        installation_id = self._connection(repository).remote_id
        self._api.request(installation_id, "POST", f"/repos/{repository.repo_name}/check-runs", skipped_run(skip))

    def _to_update(self, report: Report) -> list[Report]:
        """Return the reports of the other builds that passed, once all builds of the commit have ended."""
        builds = report.worst_first()
        if not all(each.state.ended for each in builds):
            return []
        passed = (each for each in report.others if each.state is ReportState.PASSED and each.origin.report_id)
        return [replace(each, others=tuple(other for other in builds if other is not each)) for each in passed]

    def _update(self, installation_id: str, path: str, report: Report) -> None:
        """Bring a check run up to date.

        GitHub adds annotations to those that it has, so they are not sent again.
        """
        run = self._run(report)
        if "annotations" in run["output"]:
            shown = self._api.request(installation_id, "GET", path)["output"]["annotations_count"]
            if shown:
                del run["output"]["annotations"]
        self._api.request(installation_id, "PATCH", path, run)

    def _run(self, report: Report) -> dict[str, Any]:
        """Return the check run of a build: once that has ended, with all that it left."""
        jobs, tests, remarks = self._storage.jobs.of_build(report.build.id), NO_TESTS, NO_REMARKS
        if report.state.ended:
            tests, remarks = test_results(self._storage, report.build, jobs), self._remarks(report.build)
        return check_run(report, self._steps(report, jobs), tests, remarks)

    def _remarks(self, build: Build) -> Remarks:
        told = self._storage.told
        counts = told.annotation_counts(build.id)
        said = [
            each
            for level in AnnotationLevel
            if level in counts
            for each in told.annotations(build.id, MOST_ANNOTATIONS, level=level).rows
        ]
        files = source_files(self._storage, build) if said else SourceFiles(())
        places = ((each.annotation, files.named(each.annotation.path)) for each in said if each.annotation.path)
        return Remarks(
            tuple(replace(found, path=path) for found, path in places if path and not path.startswith(("/", "../"))),
            tuple(each for each in said if each.annotation.path is None),
            counts,
            told.summaries(build.id, _MOST_SUMMARIES).rows,
        )

    def _steps(self, report: Report, jobs: Iterable[Job]) -> list[FinishedStep]:
        return [FinishedStep(each, self._log_end(report, each) if each.state.failed else b"") for each in jobs]

    def _log_end(self, report: Report, job: Job) -> bytes:
        log = self._storage.logs.reader(report.build.uuid, job.uuid)
        return log.read(max(0, log.size() - TAIL_BYTES), TAIL_BYTES)

    def _repository(self, payload: payloads.Payload) -> Repository | None:
        """Return the repository of a delivery, as it belongs to the installation that reports it."""
        if payload.repository is None or payload.installation is None:
            return None
        connection = self._storage.host_connections.find(GITHUB, str(payload.installation.id))
        known = self._storage.repositories.of_remote(GITHUB, str(payload.repository.id))
        return next((each for each in known if connection is not None and each.connection_id == connection.id), None)

    def _connection(self, repository: Repository) -> HostConnection:
        """Return the installation of a repository. Raises HostError if it is suspended."""
        connection = self._storage.host_connections.get(repository.connection_id or 0)
        if connection is None:
            raise HostError(f"{repository.repo_name} belongs to no installation of the app any more", final=True)
        if connection.suspended_at is not None:
            raise HostError(f"{connection.account} has suspended the installation of the app at GitHub")
        return connection
