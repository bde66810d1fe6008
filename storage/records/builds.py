"""Builds, requests that create them, their renders and artifacts, and past builds for lists and plots."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from storage.data_classes import immutable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from storage.records.audit import NewEntry


class BuildState(StrEnum):
    """The state of a build, which follows from the states of its jobs.

    ``scheduled``: no job has a VM yet. ``failing``: a job has failed, and others go on. ``canceling``: the jobs are
    being stopped. ``passed``, ``failed`` and ``canceled`` are final.
    """

    SCHEDULED = "scheduled"
    RUNNING = "running"
    FAILING = "failing"
    PASSED = "passed"
    FAILED = "failed"
    CANCELING = "canceling"
    CANCELED = "canceled"

    @cached_property
    def terminal(self) -> bool:
        """True if the state is final."""
        return self in {BuildState.PASSED, BuildState.FAILED, BuildState.CANCELED}


class WaitsFor(StrEnum):
    """The thing that a build waits for as a whole: an approval, or its turn in a concurrency group."""

    APPROVAL = "approval"
    TURN = "turn"


class VerifiedEvent(StrEnum):
    """The event that a build was made for, as the service knows by itself.

    ``manual``: a person had the service fetch a branch, tag or commit. ``api``: a request brought the source, the
    pipeline, or variables, so that the build may be anything.
    """

    PUSH = "push"
    TAG = "tag"
    PULL_REQUEST = "pull_request"
    SCHEDULE = "schedule"
    PIPELINE = "pipeline"
    MANUAL = "manual"
    API = "api"


class Priority(StrEnum):
    """The reason for a build, which says for how long its jobs let others of its organization go first.

    ``manual``: somebody asked for it, in person or by the API. ``branch``: a push to another branch than the
    pipeline's default, or a tag. ``culprit``: the service searches the commit that broke a job.
    """

    MANUAL = "manual"
    PULL_REQUEST = "pull_request"
    DEFAULT_BRANCH = "default_branch"
    BRANCH = "branch"
    SCHEDULE = "schedule"
    CULPRIT = "culprit"


HEADS, TAGS = "refs/heads/", "refs/tags/"
"""The beginnings of the full names of branches and tags."""


def pull_request_ref(number: int) -> str:
    """Return the full name of the head of a pull request, in the words of this service at every host."""
    return f"refs/pull/{number}/head"


@immutable
class RequestKey:
    """The idempotency key of a request, and the SHA-256 of the request."""

    user_id: int
    organization_id: int
    key: str
    request_hash: bytes


@immutable
class KeyUse:
    """The build that a request with an idempotency key created, and whether the build was rejected.

    ``same_request`` is True if that request has the same hash as the one looked up.
    """

    build_id: int
    rejected: bool
    same_request: bool


@immutable
class Concurrency:
    """The concurrency group that a pipeline's file declares, in which ``{branch}`` stands for the branch.

    With ``cancels`` a new build of the group cancels the older ones, whether they wait or run.
    """

    group: str
    limit: int = 1
    cancels: bool = False


@immutable
class NewBuild:
    """A build to create, as its caller describes it.

    ``rebuild_of`` is the number of the build that it repeats; ``source_of`` is that build's UUID if it has an archive.
    ``approval_reason`` is why somebody has to approve it first; None if nobody has to.
    ``created_by`` is the id of the user who asked for it. ``inputs`` are what it was given by name, and
    ``changed_files`` what its push changed; None if nobody knows. ``ref`` is that of the connected repository whose
    source is fetched before it is rendered. ``warnings`` are about its pipeline. With ``strict_shell``
    its commands end at their first failure, whatever is set for its pipeline, because its language says so.
    """

    branch: str
    commit: str
    message: str | None = None
    source: str = "api"
    env: Mapping[str, str] = field(default_factory=dict)
    pipeline_ir: str | None = None
    timeout_seconds: int | None = None
    source_archive: bytes | None = None
    source_sha256: str = ""
    key: RequestKey | None = None
    debug: bool = False
    rebuild_of: int | None = None
    source_of: str | None = None
    untrusted_origin: str | None = None
    from_fork: bool = False
    approval_reason: str | None = None
    created_by: int | None = None
    warnings: tuple[str, ...] = ()
    strict_shell: bool = False
    inputs: Mapping[str, str] = field(default_factory=dict)
    changed_files: tuple[str, ...] | None = None
    ref: str | None = None
    concurrency: Concurrency | None = None
    """The group that its file declares, in place of its pipeline's."""

    entry: NewEntry | None = None
    """The audit's entry of the request for it, to which its number is added; a failed build has none."""

    verified_event: VerifiedEvent = VerifiedEvent.API
    base_commit: str | None = None
    """The commit of the target into which ``commit`` was merged; None if it was not."""

    merge_commit: str | None = None
    """The merge of both, whose files it has; None if they conflict."""

    verified_ref: str | None = None
    """The full name of the ref whose head the service fetched itself; None if nobody verified it."""

    budget_id: int | None = None
    """The API key whose budget pays for it; None if it has none."""

    upstream_id: int | None = None
    """The build of another pipeline that it follows; None if it follows none."""

    culprit_search_id: int | None = None
    """The search that it is a build of: it has only the job that is looked at, and what that needs."""

    @property
    def has_source(self) -> bool:
        """True if it has a source archive, its own or that of the build that it repeats."""
        return self.source_archive is not None or self.source_of is not None


@immutable
class Build:
    """One run of a pipeline. ``external_id`` is the ``id`` of the wire; ``uuid`` is the stable build id.

    With ``debug`` the VMs of its failed jobs are held. ``recorded_at`` is when its end was written. ``rebuild_of`` is
    the number of the build that it repeats, ``created_by`` the id of the user who created it, if a user did.

    ``from_fork`` is true if it is of a fork's pull request, whose owner decides what runs in it. ``untrusted_origin``
    is that pull request unless forks are trusted: the build gets no secrets, and shares caches and concurrency groups
    with it alone. ``approval_reason`` is why it needs an approval first, or None. With ``strict_shell`` a command ends
    at its first failure; that is fixed as the build is made. ``refused`` is true if a request asked for it and was
    refused, as it has no valid plan: it says nothing about its branch. ``warnings`` say what in its pipeline has no
    effect. ``inputs`` are what it was given by name, without defaults.

    ``branch``, ``commit`` and ``source`` are what its request said. ``verified_event`` and ``verified_ref`` are what
    the service knows by itself: the ref, by its full name, whose head it fetched; None if nobody verified it.
    If ``base_commit`` is set, its files are those of ``merge_commit``, the merge of ``commit`` into it.
    ``budget_id`` is the API key whose budget pays for it. It is ``planned`` once it has a pipeline. One with a
    ``culprit_search_id`` runs one job of an earlier commit, and says nothing about its branch.
    """

    id: int
    uuid: str
    external_id: str
    pipeline_id: int
    organization_id: int
    organization_slug: str
    pipeline_slug: str
    default_branch: str
    number: int
    state: BuildState
    branch: str | None
    commit: str | None
    message: str | None
    source: str
    timeout_seconds: int | None
    cancel_requested: bool
    has_source: bool
    source_sha256: str
    created_at: datetime
    scheduled_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    error_code: str | None
    error_message: str | None
    logs_expired_at: datetime | None
    debug: bool
    recorded_at: datetime | None
    rebuild_of: int | None
    source_expired_at: datetime | None
    waits_for: WaitsFor | None
    concurrency_group: str | None
    untrusted_origin: str | None
    from_fork: bool
    approval_reason: str | None
    approved_by: str | None
    approved_at: datetime | None
    created_by: int | None
    strict_shell: bool
    warnings: tuple[str, ...]
    refused: bool = False
    inputs: Mapping[str, str] = field(default_factory=dict)
    verified_event: VerifiedEvent = VerifiedEvent.API
    verified_ref: str | None = None
    base_commit: str | None = None
    merge_commit: str | None = None
    budget_id: int | None = None
    culprit_search_id: int | None = None
    planned: bool = True

    @property
    def priority(self) -> Priority:
        """The reason for it, which decides when its jobs get VMs."""
        event = self.verified_event
        if self.culprit_search_id is not None:
            return Priority.CULPRIT
        if self.created_by is not None or event in {VerifiedEvent.MANUAL, VerifiedEvent.API}:
            return Priority.MANUAL
        if event is VerifiedEvent.SCHEDULE:
            return Priority.SCHEDULE
        if event is VerifiedEvent.PULL_REQUEST:
            return Priority.PULL_REQUEST
        return Priority.DEFAULT_BRANCH if self.branch == self.default_branch else Priority.BRANCH

    @property
    def source_commit(self) -> str | None:
        """The commit whose files the build has: its own, or the merge of it."""
        return self.merge_commit or self.commit

    @property
    def name(self) -> str:
        """The build's name for people: ORG/PIPELINE/NUMBER."""
        return f"{self.organization_slug}/{self.pipeline_slug}/{self.number}"

    @property
    def untrusted(self) -> bool:
        """True if it comes from a fork that is not trusted."""
        return self.untrusted_origin is not None

    @property
    def page(self) -> str:
        """The path of its page below the service's address: ORG/pipelines/PIPELINE/builds/NUMBER."""
        return f"{self.organization_slug}/pipelines/{self.pipeline_slug}/builds/{self.number}"

    @property
    def end_requested(self) -> bool:
        """True if running jobs must end and none may start: it was canceled, or the service failed it."""
        return self.cancel_requested or self.error_code is not None


@immutable
class PastBuild:
    """A build's number, state and times; ``amount_cents`` is the price of its VMs."""

    pipeline_id: int
    number: int
    branch: str | None
    commit: str | None
    state: BuildState
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    amount_cents: int

    @property
    def seconds(self) -> float | None:
        """The seconds that it ran; None if it has not started or not ended."""
        if self.started_at is None or self.finished_at is None:
            return None
        return (self.finished_at - self.started_at).total_seconds()

    @property
    def waited(self) -> float | None:
        """The seconds that it waited for its first VM; None if it has not started."""
        return None if self.started_at is None else (self.started_at - self.created_at).total_seconds()


@immutable
class BuildPeople:
    """The people of a build: the commit's author, who pushed it, and who began the build here.

    ``author`` is the commit's own claim, which nobody has proven. ``pusher`` is a login at the source host, ``creator``
    the name or address of an account.
    """

    author: str | None = None
    pusher: str | None = None
    creator: str | None = None

    @property
    def first(self) -> str:
        """The one to name in a list; empty if nobody is known."""
        return self.author or self.pusher or self.creator or ""


@immutable
class ListedBuild:
    """A build in a pipeline's list, with its people."""

    build: Build
    people: BuildPeople


@immutable
class SlowStep:
    """A step with the mean time that its jobs ran, in seconds, and how many they were."""

    name: str
    mean_seconds: float
    runs: int


@immutable
class FlakyStep:
    """A step whose jobs failed and passed on one commit; ``commits`` counts those commits."""

    name: str
    commits: int


@immutable
class Render:
    """The render of a build. ``source_url`` is the URL of its archive, None if the archive is on the host.

    ``ref`` is that of the connected repository whose source is to be fetched first; None once that is done.
    ``lease_id`` is the lease of its latest VM; ``rejected`` is True if the build was refused.
    """

    build_id: int
    organization_id: int
    source_url: str | None
    lease_id: int | None
    finished_at: datetime | None
    rejected: bool
    ref: str | None = None


@immutable
class FetchedSource:
    """The commit that a ref stands for, with its archive and what its build has to know.

    ``ref`` is the full name of the branch or tag, or that of the head of a pull request, whose number is given, too;
    it is empty if no host has it. The rest is as in a `NewBuild`.
    """

    branch: str
    commit: str
    message: str
    archive: bytes
    env: Mapping[str, str] = field(default_factory=dict)
    untrusted_origin: str | None = None
    from_fork: bool = False
    approval_reason: str | None = None
    verified_ref: str | None = None
    ref: str = ""
    pull_request: int | None = None
    base_commit: str | None = None
    merge_commit: str | None = None


@immutable
class Rendered:
    """The result of rendering an archive: the discovery envelope as JSON, and the output of the files."""

    envelope: str
    log: bytes


@immutable
class NewArtifact:
    """A written file without a row yet. ``path`` is relative to the workspace, ``sha256`` in hex."""

    uuid: str
    path: str
    file_size: int
    sha256: str
    executable: bool = False


@immutable
class Artifact:
    """A file that a job keeps."""

    id: int
    uuid: str
    build_uuid: str
    job_uuid: str
    path: str
    mime_type: str
    file_size: int
    sha256: str
    executable: bool
    created_at: datetime

    @property
    def filename(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


@immutable
class NewKeptFolder:
    """A folder that a job has kept for later builds, whose file is written and has no row yet.

    ``scope`` says who shares it, ``origin`` is that of an untrusted build, empty for others. ``left_by`` is the job
    with its build, in words; ``fingerprint`` changes with the files.
    """

    organization_id: int
    pipeline_id: int
    scope: str
    branch: str
    origin: str
    left_by: str
    fingerprint: str
    uuid: str
    file_size: int


@immutable
class KeptFolder(NewKeptFolder):
    """A folder that later builds get."""

    id: int
    created_at: datetime
    last_used_at: datetime


@immutable
class PastArtifact:
    """An artifact, with the number and commit of its build, and the step that kept it."""

    number: int
    commit: str | None
    step_key: str
    artifact: Artifact
