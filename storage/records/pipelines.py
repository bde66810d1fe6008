"""Pipelines, their declarations, status, schedules and secrets."""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypedDict

from storage.data_classes import example, hidden, immutable
from storage.documents import shown_after

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from storage.records.builds import BuildState


class Visibility(StrEnum):
    """Read access to a pipeline's builds, jobs and logs: by members only, or by everyone."""

    PRIVATE = "private"
    PUBLIC = "public"


class CancelSuperseded(StrEnum):
    """The builds that a newer build of their branch or pull request cancels.

    ``waiting``: those that have not begun. ``branches``: also those that run, except of the default branch. ``all``:
    these, too.
    """

    WAITING = "waiting"
    BRANCHES = "branches"
    ALL = "all"


@immutable
class NewPipeline:
    """A pipeline to create; ``slug`` is already derived and valid."""

    slug: str
    name: str
    repository: str
    default_branch: str
    description: str | None = None
    repo_name: str | None = None
    visibility: Visibility = Visibility.PRIVATE
    allow_manual: bool = True
    fail_fast: bool = False
    source_slug: str | None = None
    concurrency_group: str | None = None
    concurrency_limit: int = 1
    cancel_superseded: CancelSuperseded | None = None
    strict_shell: bool | None = None
    artifacts_public: bool = False
    find_culprits: bool | None = None
    test_command: str | None = None


class PipelineChanges(TypedDict, total=False):
    """Changes of a pipeline; absent fields stay as they are."""

    name: str
    description: str | None
    repository: str
    default_branch: str
    visibility: Visibility
    allow_manual: bool
    repo_name: str | None
    source_slug: str | None
    fail_fast: bool
    concurrency_group: str | None
    concurrency_limit: int
    cancel_superseded: CancelSuperseded | None
    strict_shell: bool | None
    artifacts_public: bool
    followers: tuple[str, ...]
    find_culprits: bool | None
    test_command: str | None


@immutable
class Pipeline:
    """A pipeline.

    Builds of the organization with the same ``concurrency_group`` run at most ``concurrency_limit`` at a time. Where
    ``strict_shell`` or ``find_culprits`` is null, the setting of the organization or host applies. With
    ``artifacts_public`` anybody can read the latest artifacts of the repository's own branches, also of a private
    pipeline. ``followers`` are the slugs of other organizations whose pipelines may follow it, and take its files.
    ``test_command`` is that by which proofs run some tests alone.
    """

    id: int
    uuid: str = hidden()
    organization_id: int = hidden()
    slug: str
    name: str
    repository: str
    default_branch: str
    visibility: Visibility
    allow_manual: bool
    source_slug: str | None = hidden()
    build_count: int
    """Also the number of its latest build: no number is skipped, and no build removed."""

    created_at: datetime
    description: str | None
    repo_name: str | None
    concurrency_group: str | None
    """The group may contain ``{branch}``."""

    concurrency_limit: int
    cancel_superseded: CancelSuperseded | None
    """Without one of its own the organization's applies, else the host's."""

    fail_fast: bool
    strict_shell: bool | None
    artifacts_public: bool
    followers: tuple[str, ...] = example(["globex"])
    find_culprits: bool | None
    test_command: str | None = example("bundle exec rspec -e {tests}")


@immutable
class Declaration:
    """The declaration of a pipeline in its repository's files; ``triggers`` are those of the envelope.

    ``inputs`` are those that builds may be given, as the language declares them. ``archived_at`` is when the repository
    dropped the declaration.
    """

    name: str
    allow_manual: bool
    triggers: tuple[Any, ...]
    archived_at: datetime | None = None
    inputs: Mapping[str, object] = field(default_factory=dict)


@immutable
class DeclaringRepository:
    """A repository whose files declare pipelines.

    ``address`` is its clone URL, or another name for it where that is not known, such as the ``repo_name`` itself.
    """

    organization_id: int
    repo_name: str
    address: str


@immutable
class Standing:
    """A pipeline as it stands. ``newest_id`` is its newest build that counts.

    ``broken_id`` is the build that broke its default branch: the first that failed since the last that passed there;
    None if the last one passed, or none ended. ``favourite`` is true if the user has it first in lists.
    """

    pipeline: Pipeline
    favourite: bool
    newest_id: int | None
    broken_id: int | None


@immutable
class Favourite:
    """A pipeline that a user has first in lists, by the slugs of its organization and its own."""

    org: str
    pipeline_slug: str
    name: str


@immutable
class FoundPipeline:
    """A pipeline that a search found, by its slugs and name."""

    id: int
    org: str
    slug: str
    name: str


@immutable
class FoundPerson:
    """A member of an organization that a search found."""

    user_id: int
    org: str
    name: str
    email: str


@immutable
class PipelineStatus:
    """A pipeline with the state of its latest build on a branch, and its last finished build there.

    What a pipeline without such a build lacks is None.
    """

    organization_slug: str
    pipeline_slug: str
    pipeline_name: str
    created_at: datetime
    latest_state: BuildState | None
    finished_number: int | None
    finished_state: BuildState | None
    finished_at: datetime | None
    error_code: str | None


MOST_SCHEDULES = 20
"""The most schedules of a pipeline that people make; its file may declare as many."""


@immutable
class NewSchedule:
    """A schedule to create, whose parts are checked; without ``next_at`` it is disabled.

    ``declared_in`` is the file of the branch that declares it; None if people made it.
    """

    cron: str
    timezone: str
    branch: str
    next_at: datetime | None
    declared_in: str | None = None


class ScheduleChanges(TypedDict, total=False):
    """Changes of a schedule; absent fields stay as they are."""

    cron: str
    timezone: str
    branch: str
    next_at: datetime | None


@immutable
class Schedule:
    """A schedule. ``next_at`` is null while it is disabled.

    ``last_error`` is the reason if the last run built nothing; null otherwise. ``declared_in`` is the file of the
    branch that says it, which alone changes it; null if people made it.
    """

    id: int
    uuid: str
    pipeline_id: int = hidden()
    cron: str
    timezone: str
    branch: str
    next_at: datetime | None
    last_build_number: int | None
    last_error: str | None
    created_at: datetime
    declared_in: str | None

    @property
    @shown_after("branch")
    def enabled(self) -> bool:
        """True if it has a next time."""
        return self.next_at is not None


class TriggerState(StrEnum):
    """The ends of builds that a pipeline trigger wants; a canceled build is neither passed nor failed."""

    PASSED = "passed"
    FAILED = "failed"
    ALWAYS = "always"


@immutable
class NewPipelineTrigger:
    """A trigger that a file declares: its branch is built after builds of another pipeline.

    ``slug`` names a pipeline of the same repository by its name there, or else one of the organization by its own; with
    an organization before a slash it is one of that. ``inputs`` are those that the other build gives, by name.
    """

    slug: str
    state: TriggerState
    branch: str
    declared_in: str
    inputs: Mapping[str, str] = field(default_factory=dict)


@immutable
class PipelineTrigger:
    """A pipeline trigger. ``upstream_id`` is the build that is to be followed, null if there is none.

    ``last_error`` is the reason if the last end that it wanted built nothing; null otherwise. ``failures`` counts the
    attempts that came to nothing since that end.
    """

    id: int = hidden()
    pipeline_id: int = hidden()
    slug: str
    state: TriggerState
    branch: str
    declared_in: str
    upstream_id: int | None = hidden()
    failures: int = hidden()
    last_build_number: int | None
    last_error: str | None
    created_at: datetime
    inputs: Mapping[str, str] = example({"version": "outputs.package.VERSION"})


@immutable
class SecretScope:
    """The owner of a secret: a pipeline, or a whole organization if ``pipeline_id`` is None."""

    organization_id: int
    pipeline_id: int | None = None


@immutable
class RegistryLogin:
    """The login of an organization at a registry of images, without its password."""

    host: str = example("registry.example.com")
    username: str = example("ci")
    created_at: datetime
    updated_at: datetime


@immutable
class RegistryAccount:
    """A username and a password at a registry."""

    host: str
    username: str
    password: str = field(repr=False)


MAX_SECRET_BYTES = 64 * 2**10
MAX_REGISTRY_PASSWORD_BYTES = 8 * 2**10
"""The most bytes of a secret's value, in UTF-8."""


@immutable
class SecretLimits:
    """The builds and jobs that a secret is for: patterns, of which one of each kind has to match.

    A kind without patterns limits nothing. ``branches`` and ``tags`` are one kind, because a build is of one or the
    other. ``environments`` are those that the gate of a job names.
    """

    branches: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    pipelines: tuple[str, ...] = ()


class SecretLimitChanges(TypedDict, total=False):
    """Changes of a secret's limits; absent fields stay as they are."""

    branches: Sequence[str]
    tags: Sequence[str]
    events: Sequence[str]
    environments: Sequence[str]
    pipelines: Sequence[str]


@immutable
class Secret:
    """A secret, without its value; its limits are those of `SecretLimits`."""

    name: str
    branches: tuple[str, ...] = example(["main"])
    tags: tuple[str, ...] = example(["v*"])
    events: tuple[str, ...] = example(["push"])
    environments: tuple[str, ...] = example(["production"])
    pipelines: tuple[str, ...] = example(["web"])
    source: Mapping[str, object] | None = example({"kind": "http", "url": "https://secrets.example.org/token"})
    """The place that its value is fetched from as a job starts; None if the value is set here."""

    created_at: datetime
    updated_at: datetime
