"""Forges, whose repositories are connected one by one: Forgejo, Gitea and GitLab as source hosts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol, assert_never

from pydantic import ValidationError

from actors.source_hosts.host import COMMIT_CHECK, HostError, ReportState
from storage import BuildErrorCode, GitCredential, JsonModel, SealBroken, WaitsFor, immutable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.source_hosts.api_client import HostApi, HostNetwork
    from actors.source_hosts.host import CommitReport, HostEvent, PullRequest, Received, Report, Skip
    from actors.source_hosts.payloads import Claim, WebhookSecrets
    from actors.timed_http import Deadline
    from storage import CommitCheck, Delivery, HostConnection, Repository, Storage


_MOST_CHARACTERS = 140
"""The limit of the strictest host."""

_MOST_NAMED = 4
"""The most builds whose numbers fit into that."""


@immutable
class CommitStatus:
    """A state of a commit by the name ``context``, with a sentence and the page of the build."""

    commit: str
    context: str
    state: ReportState
    description: str
    url: str


def commit_status(report: Report) -> CommitStatus:
    """Return the status that shows a pipeline's builds of a commit: that of the worst of them.

    The next status of the pipeline replaces it, whatever event its build was made for.
    """
    builds = report.worst_first()
    worst, more = builds[0], len(builds) - _MOST_NAMED
    told = "Build " + ", ".join(f"#{each.build.number} {_phrase(each)}" for each in builds[:_MOST_NAMED])
    if len(builds) == 1:
        told = ", ".join(filter(None, (told, worst.coverage)))
        longer = f"{told}, {_of_previews(worst)}" if worst.previews else told
        told = longer if len(longer) <= _MOST_CHARACTERS else told
    return CommitStatus(
        commit=worst.build.commit or "",
        context=f"ci/{worst.build.pipeline_slug}",
        state=worst.state,
        description=f"{told}, and {more} more" if more > 0 else told,
        url=worst.url,
    )


def skip_status(skip: Skip) -> CommitStatus:
    """Return the status of a skipped pipeline: these hosts have no such state, so it is success."""
    return CommitStatus(
        commit=skip.commit,
        context=f"ci/{skip.pipeline_slug}",
        state=ReportState.PASSED,
        description=f"Skipped: {skip.reason}"[:_MOST_CHARACTERS],
        url=skip.url,
    )


def commit_check_status(report: CommitReport) -> CommitStatus:
    """Return the status that shows all pipelines of a commit as one."""
    told = report.description
    description = told if len(told) <= _MOST_CHARACTERS else f"{told[: _MOST_CHARACTERS - 1]}…"
    return CommitStatus(report.commit, COMMIT_CHECK, report.state, description, report.url)


def _of_previews(report: Report) -> str:
    """Return the address of the only preview of a build that is there, else how many are, as text."""
    there = [each.url for each in report.previews if each.why_ended is None]
    if not there:
        return "preview gone"
    return f"preview: {there[0]}" if len(there) == 1 else f"{len(there)} previews"


def _phrase(report: Report) -> str:
    match report.state:
        case ReportState.WAITING if report.build.waits_for is WaitsFor.APPROVAL:
            return "waits for an approval"
        case ReportState.WAITING:
            return "waits"
        case ReportState.RUNNING:
            return "runs"
        case ReportState.PASSED:
            return "passed"
        case ReportState.FAILED if report.build.error_code == BuildErrorCode.MERGE_CONFLICT:
            return (report.build.error_message or "").partition(":")[0]
        case ReportState.FAILED:
            return "failed"
        case ReportState.CANCELED:
            return "was canceled"
        case _:
            assert_never(report.state)


@immutable
class RepositoryAtForge:
    """A repository as its forge describes it; ``path`` is that of its page, such as ``owner/repo``.

    ``may_administer`` if the token may make webhooks there.
    """

    remote_id: str
    path: str
    default_branch: str | None
    private: bool
    may_administer: bool


class Forge(Protocol):
    """One kind of forge. Each method with an ``api`` blocks and raises HostError. Safe in any thread."""

    provider: str

    def headers(self, token: str) -> Mapping[str, str]:
        """Return the headers that bring a token."""

    def answers(self, api: HostApi) -> bool:
        """Tell whether a forge of this kind is at the root of the API."""

    def account(self, api: HostApi) -> str:
        """Return the login of the token's user."""

    def describe(self, api: HostApi, path: str) -> RepositoryAtForge:
        """Return the repository at a path."""

    def add_webhook(self, api: HostApi, remote: RepositoryAtForge, url: str, secret: str) -> None:
        """Let a repository report pushes and pull requests to a URL."""

    def remove_webhook(self, api: HostApi, remote: RepositoryAtForge, url: str) -> None:
        """Remove the webhooks of a repository with this URL, if there are any."""

    def trusts(self, api: HostApi, remote: RepositoryAtForge, login: str) -> bool:
        """Tell whether somebody may push to a repository."""

    def open_pull_requests(
        self, api: HostApi, remote: RepositoryAtForge, url: str, number: int | None
    ) -> list[PullRequest]:
        """Return the open pull requests of the repository at a clone URL, as `SourceHost` does."""

    def set_status(self, api: HostApi, remote: RepositoryAtForge, status: CommitStatus) -> None:
        """Show a status at a commit; again is no error."""

    def claim(self, headers: Mapping[str, str], body: bytes) -> Claim:
        """Read the claim of a delivery. Raises DeliveryInvalid. Pure."""

    def proves(self, headers: Mapping[str, str], body: bytes, secret: str) -> bool:
        """Tell whether a delivery comes from who knows the secret. Pure."""

    def events(self, event: str, body: bytes, url: str) -> tuple[HostEvent, ...]:
        """Return what a delivery of the repository at a clone URL reports. Pure."""


class ForgeToken(JsonModel):
    """The sealed part of a connection: the token, and the only place that it may be sent to.

    ``anywhere`` if the owner of this service chose that place, which need not be public then. ``webhook`` is the
    address that the forge reports at, which may differ from that of later; empty if an earlier release connected it.
    """

    root: str
    token: str
    anywhere: bool
    webhook: str = ""

    @property
    def git_credential(self) -> GitCredential:
        """The user and password of a fetch; forges take any user with a token."""
        return GitCredential("ci-daemon", self.token)


class ForgeHost:
    """The `SourceHost` of one kind of forge."""

    max_bytes = 8 * 2**20
    reports = True

    def __init__(self, storage: Storage, secrets: WebhookSecrets, network: HostNetwork, forge: Forge) -> None:
        self.provider = forge.provider
        self._storage = storage
        self.secrets = secrets
        self._network = network
        self.forge = forge

    def receive(self, headers: Mapping[str, str], body: bytes) -> Received:
        """Find the repository by the forge's id and by its own secret, so that none speaks for another.

        Raises DeliveryInvalid and DeliveryUnsigned.
        """
        claim = self.forge.claim(headers, body)
        candidates = self._storage.repositories.of_remote(self.provider, claim.remote_id or "")
        return self.secrets.received(claim, candidates, partial(self.forge.proves, headers, body))

    def events(self, delivery: Delivery) -> tuple[HostEvent, ...]:
        """Return the pushes and pull requests of a delivery."""
        repository = None if delivery.repository_id is None else self._storage.repositories.get(delivery.repository_id)
        return () if repository is None else self.forge.events(delivery.event, delivery.body, repository.url)

    def handle(self, delivery: Delivery) -> None:
        """Do nothing: its deliveries have a repository."""

    def reconcile(self) -> None:
        """Do nothing: repositories are connected one by one."""

    def credential(self, repository: Repository) -> GitCredential | None:
        """Return the token, which reads any repository that it is for. Raises HostError."""
        return self._token(repository).git_credential

    def push_credential(self, repository: Repository) -> GitCredential | None:
        """Return the token, whose right to push is its owner's to give. Raises HostError."""
        return self.credential(repository)

    def renew_credential(self, repository: Repository) -> bool:
        """Return False: another token is given by connecting again."""
        return False

    def trusts(self, repository: Repository, login: str) -> bool:
        """Ask the forge whether somebody may push. Raises HostError."""
        return self.forge.trusts(*self.opened(repository), login)

    def open_pull_requests(self, repository: Repository, number: int | None = None) -> list[PullRequest]:
        """Ask the forge for the open pull requests. Raises HostError."""
        return self.forge.open_pull_requests(*self.opened(repository), repository.url, number)

    def report(self, repository: Repository, report: Report) -> str | None:
        """Show the status of the build's commit. Raises HostError."""
        status = commit_status(report)
        self.forge.set_status(*self.opened(repository), status)
        return status.context

    def report_commit(self, repository: Repository, report: CommitReport, told: CommitCheck) -> str | None:
        """Show the status of all pipelines of a commit. Raises HostError."""
        self.forge.set_status(*self.opened(repository), commit_check_status(report))
        return COMMIT_CHECK

    def report_skip(self, repository: Repository, skip: Skip) -> None:
        """Show a pipeline as skipped. Raises HostError."""
        self.forge.set_status(*self.opened(repository), skip_status(skip))

    def api(self, token: ForgeToken, deadline: Deadline | None = None) -> HostApi:
        """Return the API that a token is for, with one deadline for all its requests or one for each."""
        headers = self.forge.headers(token.token)
        return self._network.api(token.root, headers, anywhere=token.anywhere, deadline=deadline)

    def opened(self, repository: Repository) -> tuple[HostApi, RepositoryAtForge]:
        """Return the API for a connected repository, and the repository there. Raises HostError."""
        token = self._token(repository)
        path = repository.url.removeprefix(f"{token.root}/").removesuffix(".git")
        remote = RepositoryAtForge(
            repository.remote_id or "", path, repository.default_branch, repository.private, may_administer=True
        )
        return self.api(token), remote

    def webhook(self, connection: HostConnection) -> str:
        """Return the address of a connection's webhook; empty if it is not known."""
        token = self._sealed(connection)
        return "" if token is None else token.webhook

    def _token(self, repository: Repository) -> ForgeToken:
        connection = self._connection(repository)
        token = None if connection is None else self._sealed(connection)
        if token is None:
            raise HostError(f"{repository.url} has no token: connect it again", final=True)
        return token

    def _sealed(self, connection: HostConnection) -> ForgeToken | None:
        try:
            return ForgeToken.model_validate_json(self._storage.host_connections.credential(connection) or b"")
        except (ValidationError, SealBroken):  # the key of secrets was replaced: connecting again mends it
            return None

    def _connection(self, repository: Repository) -> HostConnection | None:
        if repository.connection_id is None:
            return None
        return self._storage.host_connections.get(repository.connection_id)
