"""Plain git servers: their hooks report pushes, and nothing is reported back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from actors.source_hosts.host import DeliveryInvalid, DeliveryUnsigned, PushedRef, Received
from storage import GIT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.source_hosts.host import CommitReport, HostEvent, PullRequest, Report, Skip
    from storage import CommitCheck, Delivery, DeployKey, GitCredential, Repository, Storage

_BEARER = re.compile(r"Bearer +(\S+)", re.IGNORECASE)
_DELIVERY_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")
_DELIVERY_HEADER = "X-DELIVERY-ID"
_LINE = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64}) ([0-9a-f]{40}|[0-9a-f]{64}) (refs/(?:heads|tags)/\S+)")


class PlainGit:
    """The `SourceHost` of repositories that were connected by their URL or path.

    A delivery has the repository's token, and the lines that git gives to a post-receive hook.
    """

    provider = GIT
    max_bytes = 2**20
    reports = False

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def receive(self, headers: Mapping[str, str], body: bytes) -> Received:
        """Find the repository by its token. Raises DeliveryUnsigned and DeliveryInvalid."""
        token = _BEARER.fullmatch(headers.get("AUTHORIZATION", ""))
        repository = self._storage.repositories.by_token(token[1]) if token else None
        if repository is None:
            raise DeliveryUnsigned("send the token of a connected repository, see `ci-daemon repo connect`")
        given = headers.get(_DELIVERY_HEADER, "")
        if not _DELIVERY_ID.fullmatch(given):
            raise DeliveryInvalid(
                "delivery_id_invalid", "X-Delivery-Id: expected 1 to 100 letters, digits, '.', '_' or '-'"
            )
        return Received("push", f"{repository.uuid}/{given}", repository)

    def events(self, delivery: Delivery) -> tuple[HostEvent, ...]:
        """Return the branches and tags of a delivery, without lines that are not of git's form."""
        matches = (_LINE.fullmatch(line) for line in delivery.body.decode(errors="replace").splitlines())
        return tuple(
            PushedRef(ref, old if old.strip("0") else None, new if new.strip("0") else None)
            for old, new, ref in (match.groups() for match in matches if match)
        )

    def handle(self, delivery: Delivery) -> None:
        """Do nothing: its deliveries have a repository."""

    def reconcile(self) -> None:
        """Do nothing: a plain server has no accounts."""

    def credential(self, repository: Repository) -> GitCredential | DeployKey | None:
        """Return the password or deploy key that the repository was given. Raises SealBroken."""
        return self._storage.repository_credentials.of(repository)

    def push_credential(self, repository: Repository) -> GitCredential | DeployKey | None:
        """Return that of fetches, whose right to push is its owner's to give."""
        return self.credential(repository)

    def renew_credential(self, repository: Repository) -> bool:
        """Return False: only the owner can give another."""
        return False

    def trusts(self, repository: Repository, login: str) -> bool:
        """Return False: a plain server knows no people."""
        return False

    def open_pull_requests(self, repository: Repository, number: int | None = None) -> list[PullRequest]:
        """Return none: a plain server knows no pull requests."""
        return []

    def report(self, repository: Repository, report: Report) -> str | None:
        """Do nothing: a plain server shows no states."""
        return None

    def report_commit(self, repository: Repository, report: CommitReport, told: CommitCheck) -> str | None:
        """Do nothing: a plain server shows no states."""
        return None

    def report_skip(self, repository: Repository, skip: Skip) -> None:
        """Do nothing: a plain server shows no states."""
