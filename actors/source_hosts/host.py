"""Source hosts, as the rest of the service sees them (wire-decisions.md, "Source hosts")."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeAlias

from storage import BuildErrorCode, immutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from storage import Build, BuildOrigin, CommitCheck, Delivery, DeployKey, GitCredential, Repository


class HostNotConfigured(Exception):
    """The owner has not configured this kind of host; the message says what is missing."""


class DeliveryInvalid(Exception):
    """A delivery lacks a header or cannot be read; ``code`` is that of the answer to it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class DeliveryUnsigned(Exception):
    """A delivery's signature or token is missing or wrong."""


class HostError(Exception):
    """The host could not be asked, or refused; the message says what to do.

    ``retry_after`` is in seconds, where the host asks for a pause. A ``final`` error would come at every attempt.
    """

    def __init__(self, message: str, *, retry_after: float | None = None, final: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.final = final


class ConnectRefused(Exception):
    """A repository cannot be connected like this; the message says why, and what to do."""


@immutable
class Received:
    """A delivery whose signature is right.

    ``delivery_id`` is the host's name for it, different for each. Without a repository it is about an account, or about
    a repository that is not known yet.
    """

    event: str
    delivery_id: str
    repository: Repository | None


@immutable
class PushedRef:
    """A head that a push moved; the ``old`` commit is None for a new one, ``new`` for a deleted one.

    Of an annotated tag these may be the tag's object, not its commit. ``actor`` is the login of whom pushed.
    """

    ref: str
    old: str | None
    new: str | None
    actor: str | None = None


RETARGETED = "retargeted"
FOUND_OPEN = "open"
MOST_OPEN = 50
"""The most open pull requests that are built when a repository is connected: those that changed last."""


@immutable
class PullRequest:
    """A change of a pull or merge request.

    ``action`` is in the words of the triggers: opened, synchronize, reopened, closed, or another of the host's own.
    ``RETARGETED`` means that its target branch changed. ``FOUND_OPEN`` means that it was open already when its
    repository was connected, so that the host never reported it. ``head_ref`` is the full name, in the repository at
    ``url``, of the ref to fetch ``head_commit`` from; ``branch`` is the name of its branch for people. ``trusted`` is
    True if the host says that the author may push to the repository, None if it does not say. ``sender`` is the login
    of whom caused the change, such as by a push. ``labels`` are known only if it was listed.
    """

    number: int
    action: str
    title: str
    head_commit: str
    head_ref: str
    url: str
    branch: str
    target_branch: str
    from_fork: bool
    author: str | None
    trusted: bool | None = None
    sender: str | None = None
    labels: tuple[str, ...] = ()


@immutable
class RerunAsked:
    """A request at the host to build again.

    ``report_id`` is the host's name for the build's report; without one every build of the ``commit`` is meant.
    """

    report_id: str | None
    commit: str | None = None
    actor: str | None = None


@immutable
class ApprovalGiven:
    """An approval of a build at its host; ``report_id`` is the host's name for the build's report."""

    report_id: str
    actor: str | None


HostEvent: TypeAlias = PushedRef | PullRequest | RerunAsked | ApprovalGiven


class ReportState(StrEnum):
    """The state of a build as hosts are told."""

    WAITING = "waiting"
    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def ended(self) -> bool:
        """True if the build does not run any more, nor waits."""
        return self in {ReportState.PASSED, ReportState.FAILED, ReportState.CANCELED}


_WORST_FIRST = (ReportState.FAILED, ReportState.RUNNING, ReportState.WAITING, ReportState.CANCELED, ReportState.PASSED)


@immutable
class PreviewLink:
    """A preview of a build's job: its address, or why it is gone."""

    job_name: str
    url: str
    why_ended: str | None


@immutable
class Report:
    """The state of a build, to be shown at the host; ``url`` is the page of the build.

    ``others`` are those of the pipeline's latest builds of this commit for other events: another branch, a tag, a pull
    request, or that somebody named it. Hosts know a commit's states by names alone, which people put into required
    checks, and all builds of a pipeline share one. So a host is never shown that a commit passed while one of these
    failed or has not ended.
    """

    state: ReportState
    build: Build
    origin: BuildOrigin
    url: str
    others: tuple[Report, ...] = ()
    outdated: bool = False
    """True if a later build of the same event replaces this one, or made it moot."""

    coverage: str = ""
    """Its coverage and the change of that, in words, if it has ended and has some."""

    previews: tuple[PreviewLink, ...] = ()
    """The previews of its jobs, also those that are gone."""

    def worst_first(self) -> list[Report]:
        """Return the reports that the commit's state is made of, the one that decides it first."""
        counting = self.others if self.outdated and self.others else (self, *self.others)
        return sorted(counting, key=lambda each: (_WORST_FIRST.index(each.state), each.build.id))


@immutable
class Skip:
    """A pipeline that is not built for a commit, to be shown there as done; ``url`` is its page.

    A required check that nothing reports would never let the commit be merged.
    """

    pipeline_slug: str
    commit: str
    reason: str
    url: str


COMMIT_CHECK = "ci-daemon"
"""The name under which hosts show the state of all pipelines of a commit, for people to require."""


@immutable
class CommitReport:
    """The state of all pipelines of a commit as one; ``url`` is the page of what decides it.

    A commit passed if each of its pipelines did or is skipped. ``description`` counts them.
    """

    commit: str
    state: ReportState
    description: str
    url: str

    @classmethod
    def of(cls, commit: str, builds: Iterable[Report], skips: Iterable[Skip]) -> CommitReport | None:
        """Return a commit's report by its latest builds and skipped pipelines; None without either."""
        pipelines: dict[str, list[Report]] = {}
        for each in builds:
            pipelines.setdefault(each.build.pipeline_slug, []).append(each)
        skipped = [each for each in skips if each.pipeline_slug not in pipelines]
        worst = sorted((min(each, key=_badness) for each in pipelines.values()), key=_badness)
        if not worst:
            reasons = ", ".join(f"{each.pipeline_slug} ({each.reason})" for each in skipped)
            return cls(commit, ReportState.PASSED, f"Skipped: {reasons}", skipped[0].url) if skipped else None
        named = {state: [_with_words(each) for each in worst if each.state is state] for state in _WORST_FIRST}
        parts = [f"{_IN_WORDS[state]}: {', '.join(names)}" for state, names in named.items() if names]
        if skipped:
            parts.append(f"skipped: {', '.join(each.pipeline_slug for each in skipped)}")
        told = "; ".join(parts)
        return cls(commit, worst[0].state, told[0].upper() + told[1:], worst[0].url)


_IN_WORDS = {
    ReportState.FAILED: "failed",
    ReportState.RUNNING: "running",
    ReportState.WAITING: "waiting",
    ReportState.CANCELED: "canceled",
    ReportState.PASSED: "passed",
}


def _with_words(report: Report) -> str:
    slug, build = report.build.pipeline_slug, report.build
    if build.error_code == BuildErrorCode.MERGE_CONFLICT:
        return f"{slug} ({(build.error_message or '').partition(':')[0]})"
    return f"{slug} ({report.coverage})" if report.coverage else slug


def _badness(report: Report) -> tuple[int, int]:
    return _WORST_FIRST.index(report.state), report.build.id


class SourceHost(Protocol):
    """A kind of source host. Safe in any thread."""

    provider: str
    """Its name in paths, rows and messages, such as ``github``."""

    max_bytes: int
    """The largest body of a delivery."""

    reports: bool
    """True if builds are reported to it."""

    def receive(self, headers: Mapping[str, str], body: bytes) -> Received:
        """Check a delivery's signature over its raw bytes.

        ``headers`` have upper-case names, as falcon gives them. It runs in a request, so it asks no host. Raises
        HostNotConfigured, DeliveryInvalid and DeliveryUnsigned.
        """

    def events(self, delivery: Delivery) -> tuple[HostEvent, ...]:
        """Return what a delivery of a repository reports, in its order; nothing of what cannot be read. Pure."""

    def handle(self, delivery: Delivery) -> None:
        """Process a delivery that has no repository. It blocks. Raises HostError, to be called again later."""

    def reconcile(self) -> None:
        """Plan, as deliveries, to find what changed at connected accounts while the service was away."""

    def credential(self, repository: Repository) -> GitCredential | DeployKey | None:
        """Return what a fetch needs; None for a public repository. It blocks. Raises HostError."""

    def push_credential(self, repository: Repository) -> GitCredential | DeployKey | None:
        """Return what a push needs. It blocks. Raises HostError, a final one if the service may not push."""

    def renew_credential(self, repository: Repository) -> bool:
        """Drop the refused credentials; True if another one is returned from now on."""

    def trusts(self, repository: Repository, login: str) -> bool:
        """Tell whether somebody may push to a repository, by the host. It blocks. Raises HostError."""

    def open_pull_requests(self, repository: Repository, number: int | None = None) -> list[PullRequest]:
        """Return the ``MOST_OPEN`` open pull requests that changed last, that one first, as ``FOUND_OPEN``.

        With a number it is that one, whenever it changed, if it is open. Those that cannot be read are left out. It
        blocks. Raises HostError.
        """

    def report(self, repository: Repository, report: Report) -> str | None:
        """Show a build's state at the host; return the host's name for the report. Raises HostError.

        It blocks. It may be called twice for one state, as after a crash; the ``report_id`` of the report's origin is
        what it returned last.
        """

    def report_commit(self, repository: Repository, report: CommitReport, told: CommitCheck) -> str | None:
        """Show the state of all pipelines of a commit under one name; return the host's name for it.

        ``told`` is what it was told last. It blocks. It may be called twice for one state. Raises HostError.
        """

    def report_skip(self, repository: Repository, skip: Skip) -> None:
        """Show at the host that a pipeline is skipped for a commit. It blocks. Raises HostError."""
