"""Accounts at source hosts; repositories, their deliveries and merge queues; origins of builds."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING

from storage.data_classes import example, hidden, immutable
from storage.records.builds import HEADS, BuildState

if TYPE_CHECKING:
    from datetime import datetime


@immutable
class NewHostConnection:
    """An account at a source host, to be connected to an organization.

    ``remote_id`` is the host's own name for the connection, such as the id of an installation. ``credential`` is sealed
    when it is stored.
    """

    organization_id: int
    provider: str
    remote_id: str
    account: str
    account_type: str = ""
    name: str = ""
    credential: bytes | None = None


@immutable
class HostConnection:
    """An account at a source host whose repositories an organization builds, without its credential."""

    id: int
    uuid: str
    organization_id: int
    provider: str
    remote_id: str
    account: str
    account_type: str
    name: str
    created_at: datetime
    updated_at: datetime
    synced_at: datetime | None
    suspended_at: datetime | None


@immutable
class RemoteRepository:
    """A repository as its host describes it; ``remote_id`` stays when it is renamed or transferred."""

    remote_id: str
    url: str
    repo_name: str
    default_branch: str | None
    private: bool


class OriginEvent(StrEnum):
    """The event that a build was made for."""

    PUSH = "push"
    TAG = "tag"
    PULL_REQUEST = "pull_request"
    MANUAL = "manual"


@immutable
class NewOrigin:
    """The push or pull request that a build is made for, or what somebody named to be built (``manual``).

    ``ref`` is the full name of the branch or tag; of a pull request, that of its head. ``pull_request`` is its number
    and ``target_branch`` the branch it is to be merged into. ``actor`` is the login at the host of whom pushed or
    opened it; the author is the commit's own claim, which nobody has proven.
    """

    repository_id: int
    event: OriginEvent
    ref: str
    pull_request: int | None = None
    target_branch: str | None = None
    actor: str | None = None
    author_name: str | None = None
    author_email: str | None = None


@immutable
class BuildOrigin:
    """The origin of a build, and how far its state was reported to the host.

    ``reported`` is the state of the build that the host was told of, ``report_id`` the host's name for it.
    ``report_at`` is when the next report is due; null if the host knows the final state, or gets none.
    """

    build_id: int
    repository_id: int | None
    event: OriginEvent
    ref: str
    pull_request: int | None
    target_branch: str | None
    actor: str | None
    author_name: str | None
    author_email: str | None
    reported: BuildState | None
    report_id: str | None
    report_at: datetime | None
    report_failures: int
    report_error: str | None


class PullRequestBuild(StrEnum):
    """The commit that is built of a pull request: its ``head``, or that ``merged`` into its target."""

    HEAD = "head"
    MERGED = "merged"


class MergeAgain(StrEnum):
    """The pull requests whose merges are built again when their target has moved."""

    NEVER = "never"
    LABELLED = "labelled"
    ALWAYS = "always"


@immutable
class Repository:
    """A git repository that belongs to an organization; ``url`` is a URL or an absolute path on this host.

    ``provider`` is the kind of its source host, ``git`` for a plain server, and ``remote_id`` the host's own id for it.
    With ``submodules`` and ``lfs`` sources have these, too. ``default_branch`` is known once it was checked.
    ``heads_known`` is True once the heads are recorded that it had when it was connected.
    ``pull_requests_known`` is True once those are built that were open at its host when it was connected.
    ``last_error`` is why the last ``failures`` checks failed. Pull requests are built as ``pull_requests`` says, and
    again when their target has moved as ``merge_again`` says.
    """

    id: int
    uuid: str
    organization_id: int
    url: str
    repo_name: str
    poll_seconds: int
    default_branch: str | None
    created_at: datetime
    next_check_at: datetime
    checked_at: datetime | None
    failures: int
    last_error: str | None
    provider: str
    connection_id: int | None
    remote_id: str | None
    private: bool
    submodules: bool
    lfs: bool
    heads_known: bool
    pull_requests_known: bool
    pull_requests: PullRequestBuild = PullRequestBuild.HEAD
    merge_again: MergeAgain = MergeAgain.NEVER

    @property
    def is_path(self) -> bool:
        """True if the repository is a folder of this host."""
        return self.url.startswith("/")


@immutable
class RepositoryHead:
    """The commit of a branch or tag, by its full name, that was looked at last.

    It is ``adopted`` if it was there when the repository was connected, so that it was not built.
    """

    ref: str
    commit: str
    adopted: bool


@immutable
class PushOutcome:
    """The outcome of a push or pull request, in words: its builds, or the reason why there are none.

    ``pages`` are the paths of the builds' pages below the service's address, a line for each. ``ref`` is a full name.
    """

    id: int
    ref: str
    pull_request: int | None
    commit: str
    outcome: str
    pages: str
    recorded_at: datetime

    @property
    def name(self) -> str:
        """The branch, tag or pull request, for people."""
        if self.pull_request is not None:
            return f"pull request {self.pull_request}"
        return self.ref.removeprefix("refs/heads/").removeprefix("refs/")

    @property
    def branch(self) -> str | None:
        """The branch that was pushed; None for a tag."""
        return self.ref.removeprefix(HEADS) if self.ref.startswith(HEADS) else None

    @property
    def builds(self) -> tuple[str, ...]:
        """The builds as commands name them: ORG/PIPELINE/NUMBER."""
        return tuple(page.replace("/pipelines/", "/").replace("/builds/", "/") for page in self.pages.splitlines())


@immutable
class SkippedPipeline:
    """A pipeline that is not built for a commit, with the reason, of which the commit's host is told."""

    id: int
    repository_id: int
    pipeline_id: int
    commit: str
    reason: str
    report_failures: int


@immutable
class CommitCheck:
    """The state of all pipelines of a commit as its host was told last; None before that.

    ``report_id`` is the host's name for it.
    """

    id: int
    repository_id: int
    commit: str
    state: str | None
    description: str
    report_id: str | None
    report_failures: int


@immutable
class GitCredential:
    """The user and password, or token, of a fetch over https. Raises ValueError for what git cannot send."""

    username: str
    password: str = field(repr=False)

    def __post_init__(self) -> None:
        for each in (self.username, self.password):
            if not each or not each.isprintable():
                raise ValueError("a user or password is empty, or has a character that cannot be shown")


@immutable
class DeployKey:
    """The ed25519 key of a fetch over ssh, in OpenSSH's formats, and the trusted public key of the host.

    It is the repository's own, or that ``of_organization``, which several repositories share.
    """

    private_key: str = field(repr=False)
    public_key: str
    host_key: str
    of_organization: bool = False


@immutable
class OrganizationKey:
    """The deploy key of an organization; the private half is for the service alone."""

    private_key: str = field(repr=False)
    public_key: str
    created_at: datetime


@immutable
class Delivery:
    """A report of a source host; it waits while ``processed_at`` is null.

    ``delivery_id`` is the host's own name for it. ``outcome`` says what came of it: the builds, or why there are none.
    ``last_error`` is why the last attempt to process it failed.
    """

    id: int
    uuid: str
    provider: str = hidden()
    event: str = example("push")
    delivery_id: str
    repository_id: int | None = hidden()
    """None if it is about an account."""

    body: bytes = hidden()
    received_at: datetime
    attempts: int
    processed_at: datetime | None
    outcome: str | None = example("refs/heads/main: 1 build: acme-web-ci #3")
    last_error: str | None


class MergeState(StrEnum):
    """The state of an entry of a merge queue.

    ``queued``: nothing is built for it now. ``building``: its merge is built, on top of those before it. ``landed``:
    the merge that was built is in the target. ``thrown_out``: it is bad, or cannot be landed. ``left``: somebody
    removed it, or it is not what was added any more.
    """

    QUEUED = "queued"
    BUILDING = "building"
    LANDED = "landed"
    THROWN_OUT = "thrown_out"
    LEFT = "left"


@immutable
class NewMerge:
    """A branch or pull request to be queued.

    ``target`` may be left to its pull request. With ``head`` it is merged only if it is at this commit.
    """

    pull_request: int | None = None
    branch: str | None = None
    target: str | None = None
    head: str | None = None


@immutable
class QueuedMerge:
    """A branch or pull request in a merge queue; its place is that among the entries of its target, by id.

    ``branch``, ``target`` and ``head`` are None until they are looked up. ``merge_commit`` is the merge of ``head``
    into ``base_commit`` that is built, which is what lands. ``reason`` says in words why it waits or has ended.
    """

    id: int
    uuid: str
    repository_id: int
    pull_request: int | None
    branch: str | None
    target: str | None
    head: str | None
    state: MergeState
    reason: str
    base_commit: str | None
    merge_commit: str | None
    added_by: str
    added_at: datetime
    ended_at: datetime | None

    @property
    def name(self) -> str:
        """Its name for people: that of its branch, with the number of its pull request."""
        if self.pull_request is None:
            return self.branch or ""
        return f"#{self.pull_request}" if self.branch is None else f"{self.branch} (#{self.pull_request})"

    @property
    def is_open(self) -> bool:
        """True if it has not ended."""
        return self.ended_at is None

    @property
    def candidate(self) -> str:
        """The name of a branch for its builds; nobody makes one."""
        return f"merge-queue/{self.target}"

    @property
    def ref(self) -> str:
        """The full name by which its builds are told from those of other entries."""
        return f"refs/heads/{self.candidate}/{self.id}"
