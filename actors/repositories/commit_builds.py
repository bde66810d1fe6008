"""The builds of a commit, of the pipelines that it declares (wire-decisions.md, "Source hosts")."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, TypeGuard

from actors.builds.adding import NotConcerned, add_or_reject
from actors.ir import (
    MOST_INPUTS,
    ScheduleInvalid,
    ScheduleTimes,
    UpstreamValue,
    decides,
    wants,
    why_skipped,
)
from actors.messages import BuildCreated, CancelBuild
from actors.render.envelope import Envelope, MergeConflicts, RenderFailed
from storage import (
    MOST_SCHEDULES,
    BuildErrorCode,
    BuildState,
    CancelSuperseded,
    DeclaringRepository,
    NewBuild,
    NewPipelineTrigger,
    NewSchedule,
    TriggerState,
    WaitsFor,
    immutable,
    slugify,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from contextlib import ExitStack
    from datetime import datetime

    from actors.addresses import Address
    from actors.ir import PullRequestEvent, PushEvent
    from actors.render.discovery import Discovery
    from actors.render.envelope import DeclaredPipeline
    from actors.settings import LiveSettings
    from actors.source_hosts.host import SourceHost
    from storage import Build, Clock, NewOrigin, Pipeline, Repository, Storage

_HEADS = "refs/heads/"
_BUILT_BEFORE = "it has been built before"
_NO_CREDIT = "the organization has no credit, and this service requires it: add some, then push again or rebuild"
_MOST_NAMED = 10
_MAX_CHANGED = 64 << 10
"""The most characters of the names of changed files that a build keeps; of more it knows none."""

_MOST_CHARACTERS = 300
_LONGEST_TRIGGER = 255
"""The most characters of a cron expression, and of a slug, that a file may declare."""

_STATES = tuple(TriggerState)


@immutable
class PushedCommit:
    """A commit that a push or pull request brought.

    ``changed`` are the files that differ, None if that is not known. Pipelines that are not known yet are made if the
    commit ``registers`` them; if it is ``followed``, all that it does not declare are archived. Each pipeline is built
    once for it if it is built ``once``, however often it is brought; a merge is so for each ``base`` if that is given.
    """

    repository: Repository
    event: PushEvent | PullRequestEvent
    origin: NewOrigin
    new: NewBuild
    changed: Collection[str] | None
    default_branch: str | None
    registers: bool = True
    followed: bool = False
    once: bool = False
    base: str | None = None


@immutable
class AddedBuilds:
    """The builds that a commit got, or the reason why it got none.

    ``ids`` are those of its builds and of the ones that they supersede. ``for_people`` are the slugs of new pipelines
    that only people start.
    """

    ids: tuple[int, ...]
    builds: tuple[Build, ...]
    reason: str = ""
    for_people: tuple[str, ...] = ()

    @property
    def outcome(self) -> str:
        """The builds, or the reason, in words, and the new pipelines that only people start."""
        names = ", ".join(self.for_people[:_MOST_NAMED])
        new = f"; new, to be started by hand: {names}" if names else ""
        if not self.builds:
            return f"0 builds: {self.reason}{new}"
        count = "1 build" if len(self.builds) == 1 else f"{len(self.builds)} builds"
        return f"{count}: {', '.join(_in_words(each) for each in self.builds)}{new}"

    @property
    def pages(self) -> list[str]:
        """The paths of the builds' pages."""
        return [each.page for each in self.builds]


@immutable
class _Wanted:
    """A pipeline to build, or why it cannot be; without a definition it is rendered for its build."""

    pipeline: Pipeline
    definition: str | None = None
    failure: RenderFailed | None = None


@immutable
class CommitParts:
    """The parts of what builds commits, pushes and pull requests; ``hosts`` are the source hosts by name."""

    storage: Storage
    clock: Clock
    discovery: Discovery
    live_settings: LiveSettings
    root: Address[BuildCreated | CancelBuild]
    hosts: Mapping[str, SourceHost]


class CommitBuilds:
    """Makes the builds of commits. It renders in a VM, which blocks. Safe in any thread."""

    def __init__(self, parts: CommitParts) -> None:
        self._storage = parts.storage
        self._clock = parts.clock
        self._discovery = parts.discovery
        self._live_settings = parts.live_settings
        self._root = parts.root
        self._hosts = parts.hosts

    def declared(
        self, repository: Repository, archive: bytes, leaving: ExitStack, *, from_fork: bool = False
    ) -> Envelope:
        """Return the pipelines that a commit declares; ``leaving`` destroys the VM that rendered them.

        Raises RenderFailed and VmError.
        """
        organization = self._storage.organizations.by_id(repository.organization_id)
        slug = "" if organization is None else organization.slug
        name = slugify(repository.repo_name) or "pipeline"
        return self._discovery.pipelines(slug, name, archive, leaving, from_fork=from_fork)

    def knows_pipelines(self, repository: Repository) -> bool:
        """Tell whether a repository has declared a pipeline."""
        return bool(self._storage.declarations.of_repository(_declaring(repository)))

    def add(self, commit: PushedCommit, declared: Envelope | RenderFailed) -> AddedBuilds:
        """Add the builds that a commit's triggers want, and cancel those that they supersede.

        Call it in a transaction, and `announce` the ids of the result after it.
        """
        for_people: list[str] = []
        if isinstance(declared, RenderFailed):
            wanted = self._undeclared(commit, declared)
        else:
            for_people = self._register_for_people(commit, declared)
            wanted = self._wanted(commit, declared)
        made = [self._create(each, commit) for each in wanted]
        reasons = [each for each in made if isinstance(each, str)] or [self._unwanted(commit, declared)]
        added = self._added(commit, [each for each in made if not isinstance(each, str)], reasons)
        return replace(added, for_people=tuple(for_people))

    def add_unrendered(self, commit: PushedCommit) -> AddedBuilds:
        """Add builds of a commit whose pipeline files may not be read yet, as `add` does.

        The triggers are those that the repository declared last.
        """
        builds, reasons = [], []
        for wanted in self._undeclared(commit, None):
            if self._is_built(wanted.pipeline, commit):
                reasons.append(_BUILT_BEFORE)
            else:
                build = self._storage.renders.begin(wanted.pipeline, _with_changes(commit), None)
                builds.append(self._recorded(build, commit))
        return self._added(commit, builds, reasons or [f"no known pipeline has a trigger for {commit.event}"])

    def _added(self, commit: PushedCommit, builds: Sequence[Build], reasons: Iterable[str]) -> AddedBuilds:
        superseded = [each for build in builds for each in self._supersede(build, commit)]
        ids = (*(build.id for build in builds), *superseded)
        return AddedBuilds(ids, tuple(builds), "; ".join(dict.fromkeys(reasons)))

    def _unwanted(self, commit: PushedCommit, declared: Envelope | RenderFailed) -> str:
        """Return why no pipeline is wanted for a commit."""
        if isinstance(declared, MergeConflicts):
            return str(declared)
        if isinstance(declared, RenderFailed):
            line = _first_mistake(str(declared))  # a stranger's words, so without its own line ends
            return f"its pipeline files cannot be read, and no pipeline that is known wants it: {line}"
        if not declared.pipelines:
            return "it declares no pipeline in .hm"
        if any(wants(each.triggers, commit.event, commit.changed) for each in declared.pipelines):
            if not commit.registers:
                return "its pipelines are new, and a pull request from a fork makes none"
            return "its pipelines are not known, and render.register is off"
        if any(wants(each.triggers, commit.event) for each in declared.pipelines):
            return "none of the changed files is among the paths of its triggers"
        names = ", ".join(each.slug for each in declared.pipelines[:_MOST_NAMED])
        return f"no pipeline has a trigger for {commit.event}; it declares {names}"

    def announce(self, build_ids: Iterable[int]) -> None:
        """Tell the service of builds that were added or superseded."""
        for build_id in build_ids:
            build = self._storage.builds.get(build_id)
            if build is not None and build.cancel_requested:
                self._root.post(CancelBuild(build_id, threading.Event()))
            elif build is not None and not build.state.terminal:
                self._root.post(BuildCreated(build_id))

    def _wanted(self, commit: PushedCommit, envelope: Envelope) -> list[_Wanted]:
        """Return the pipelines whose triggers want a commit; those that are not known yet are registered.

        So is one that a followed commit schedules, or lets follow another one, which no push may ever want.
        """
        repository, registers = _declaring(commit.repository), self._registers(commit)
        if commit.followed:
            declared = {each.slug: each.declaration for each in envelope.pipelines}
            self._storage.declarations.follow(repository, declared)
        wanted = []
        for each in envelope.pipelines:
            is_wanted = wants(each.triggers, commit.event, commit.changed)
            schedules = self._schedules(each, commit) if commit.followed else []
            following = self._following(each, commit) if commit.followed else []
            pipeline = self._storage.declarations.claim(repository, each.slug) if is_wanted or commit.followed else None
            if pipeline is None and registers and (is_wanted or schedules or following):
                pipeline = self._register(each, commit)
            if pipeline is not None and commit.followed:
                self._storage.schedules.declare(pipeline.id, schedules)
                self._storage.pipeline_triggers.declare(pipeline.id, following)
            if pipeline is not None and is_wanted:
                wanted.append(_Wanted(pipeline) if envelope.of_build else _with_definition(pipeline, each))
            elif not is_wanted and _decides(commit, each.triggers):
                self._skip_unwanted(commit, self._storage.declarations.claim(repository, each.slug), each.triggers)
        return wanted

    def _registers(self, commit: PushedCommit) -> bool:
        return commit.registers and self._live_settings.now.render.register

    def _register(self, declared: DeclaredPipeline, commit: PushedCommit) -> Pipeline:
        repository, branch = _declaring(commit.repository), commit.default_branch or commit.new.branch
        return self._storage.declarations.register(repository, declared.slug, branch, declared.declaration)

    def _register_for_people(self, commit: PushedCommit, envelope: Envelope) -> list[str]:
        """Register what only people start, which no event ever makes known; return the slugs of new pipelines."""
        if not (commit.followed and self._registers(commit)):
            return []
        found = self._storage.declarations.of_repository(_declaring(commit.repository))
        known = {each.source_slug for each, _ in found}
        return [
            self._register(each, commit).slug
            for each in envelope.pipelines
            if each.allow_manual and not each.triggers and each.slug not in known
        ]

    def skip_all(
        self,
        repository: Repository,
        event: PushEvent | PullRequestEvent,
        commit: str,
        reason: str,
        own_branch: str | None = None,
    ) -> None:
        """Note that an event builds none of the known pipelines for a commit, so that its host is told.

        Call it in a transaction. ``own_branch`` is that of a pull request of the repository itself.
        """
        for pipeline, declared in self._storage.declarations.of_repository(_declaring(repository)):
            if decides(declared.triggers, event, own_branch):
                self._skip(repository, pipeline, commit, reason)

    def _skip_unwanted(self, commit: PushedCommit, pipeline: Pipeline | None, triggers: Iterable[object]) -> None:
        if pipeline is not None:
            self._skip(commit.repository, pipeline, commit.new.commit, why_skipped(triggers, commit.event))

    def _skip(self, repository: Repository, pipeline: Pipeline, commit: str, reason: str) -> None:
        if self._hosts[repository.provider].reports:
            self._storage.skipped_pipelines.record(repository.id, pipeline.id, commit, reason)

    def _schedules(self, declared: DeclaredPipeline, commit: PushedCommit) -> list[NewSchedule]:
        return _schedules_in(declared.triggers, declared.file, commit.new.branch, self._clock.now())

    def _following(self, declared: DeclaredPipeline, commit: PushedCommit) -> list[NewPipelineTrigger]:
        return _pipeline_triggers_in(declared.triggers, declared.file, commit.new.branch)

    def _undeclared(self, commit: PushedCommit, failure: RenderFailed | None) -> list[_Wanted]:
        """Return the known pipelines whose last declaration wants a commit."""
        wanted = []
        for pipeline, declared in self._storage.declarations.of_repository(_declaring(commit.repository)):
            if wants(declared.triggers, commit.event, commit.changed):
                wanted.append(_Wanted(pipeline, failure=failure))
            elif failure is None and _decides(commit, declared.triggers):  # what cannot be read may want it
                self._skip_unwanted(commit, pipeline, declared.triggers)
        return wanted

    def _create(self, wanted: _Wanted, commit: PushedCommit) -> Build | str:
        """Store a build; return why not if the commit does not concern its pipeline, or it has been built."""
        if self._is_built(wanted.pipeline, commit):
            return _BUILT_BEFORE
        try:
            build = add_or_reject(
                self._storage,
                self._live_settings.now.ir,
                wanted.pipeline,
                _with_changes(commit),
                wanted.definition,
                no_credit=_NO_CREDIT,
                failure=None if wanted.failure is None else str(wanted.failure),
                code=BuildErrorCode.RENDER_FAILED if wanted.failure is None else wanted.failure.code,
                changed=commit.changed,
            )
        except NotConcerned as why:
            declared = self._storage.declarations.get(wanted.pipeline.id)
            if declared is not None and _decides(commit, declared.triggers):
                self._skip(commit.repository, wanted.pipeline, commit.new.commit, str(why))
            return str(why)
        return self._recorded(build, commit)

    def _is_built(self, pipeline: Pipeline, commit: PushedCommit) -> bool:
        origins = self._storage.build_origins
        return commit.once and origins.has_build(pipeline.id, commit.origin, commit.new.commit, commit.base)

    def _recorded(self, build: Build, commit: PushedCommit) -> Build:
        reports = self._hosts[commit.repository.provider].reports
        self._storage.build_origins.record(build.id, commit.origin, reports=reports)
        return build

    def _supersede(self, build: Build, commit: PushedCommit) -> list[int]:
        """Cancel older builds of a build's branch or pull request."""
        mode = self._storage.pipelines.cancel_superseded(build.pipeline_id)
        mode = mode or CancelSuperseded(self._live_settings.now.repositories.cancel_superseded)
        of_default = commit.origin.ref == f"{_HEADS}{commit.default_branch}" and commit.origin.pull_request is None
        running = mode is CancelSuperseded.ALL or (mode is CancelSuperseded.BRANCHES and not of_default)
        return self._storage.superseded.cancel_older(build, commit.origin, running=running)


def _decides(commit: PushedCommit, triggers: Iterable[object]) -> bool:
    return decides(triggers, commit.event, None if commit.new.from_fork else commit.new.branch)


def _in_words(build: Build) -> str:
    name = f"{build.pipeline_slug} #{build.number}"
    if build.state is BuildState.FAILED:
        why = _first_mistake(build.error_message or "")
        return f"{name}, which failed: {why[:_MOST_CHARACTERS]}"
    return f"{name}, which waits for an approval" if build.waits_for is WaitsFor.APPROVAL else name


def _first_mistake(message: str) -> str:
    """Return the line of a message that says what is wrong: a traceback ends with its error."""
    lines = message.strip().splitlines() or ["it cannot be run"]
    return lines[-1] if "Traceback" in lines[0] else lines[0]


def _with_changes(commit: PushedCommit) -> NewBuild:
    """Return the build of a commit, which keeps the files that changed unless they are very many."""
    changed = commit.changed
    if changed is None or sum(map(len, changed)) + len(changed) > _MAX_CHANGED:
        return commit.new
    return replace(commit.new, changed_files=tuple(changed))


def _declaring(repository: Repository) -> DeclaringRepository:
    return DeclaringRepository(repository.organization_id, repository.repo_name, repository.url)


def _with_definition(pipeline: Pipeline, declared: DeclaredPipeline) -> _Wanted:
    try:
        return _Wanted(pipeline, definition=declared.pipeline_ir)
    except RenderFailed as failure:
        return _Wanted(pipeline, failure=failure)


def _schedules_in(triggers: Iterable[object], file: str, branch: str, now: datetime) -> list[NewSchedule]:
    """Return the schedules among the triggers of a pipeline, which a file of a branch declares.

    They come from a repository, so one that cannot be is left out, and so are those beyond the most of a pipeline.
    """
    found = dict.fromkeys(_times(triggers))
    return [
        NewSchedule(each.cron, each.timezone, branch, each.after(now), declared_in=file)
        for each in list(found)[:MOST_SCHEDULES]
    ]


def _times(triggers: Iterable[object]) -> Iterator[ScheduleTimes]:
    for each in triggers:
        match each:
            case {"event": "schedule", "cron": str(cron), **rest} if len(cron) <= _LONGEST_TRIGGER:
                timezone = rest.get("timezone", "UTC")
                try:
                    times = ScheduleTimes(cron, timezone if isinstance(timezone, str) else "")
                except ScheduleInvalid:
                    continue
                yield times


def _pipeline_triggers_in(triggers: Iterable[object], file: str, branch: str) -> list[NewPipelineTrigger]:
    """Return the pipeline triggers among the triggers of a pipeline, which a file of a branch declares.

    Those that cannot be are left out, and so are those beyond the most of a pipeline.
    """
    found = []
    for each in triggers:
        match each:
            case {"event": "pipeline", "slug": str(slug), **rest} if 0 < len(slug) <= _LONGEST_TRIGGER:
                state = rest.get("state", TriggerState.PASSED)
                inputs = rest.get("inputs", {})
                if isinstance(state, str) and state in _STATES and _are_given(inputs):
                    found.append(NewPipelineTrigger(slug, TriggerState(state), branch, file, inputs))
    return found[:MOST_SCHEDULES]


def _are_given(inputs: object) -> TypeGuard[dict[str, str]]:
    """Tell whether inputs are names and texts that say what of the followed build gives them."""
    if not isinstance(inputs, dict) or len(inputs) > MOST_INPUTS:
        return False
    return all(
        len(name) <= _LONGEST_TRIGGER and isinstance(text, str) and UpstreamValue.of(text) is not None
        for name, text in inputs.items()
    )
