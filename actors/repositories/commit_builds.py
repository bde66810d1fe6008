"""The builds of a commit, of the pipelines that it declares (wire-decisions.md, "Source hosts")."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from actors.builds.adding import NotConcerned, add_or_reject
from actors.ir import wants
from actors.messages import BuildCreated, CancelBuild
from actors.render.envelope import Envelope, RenderFailed
from storage import (
    BuildState,
    CancelSuperseded,
    DeclaringRepository,
    NewBuild,
    WaitsFor,
    immutable,
    slugify,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from contextlib import ExitStack

    from actors.addresses import Address
    from actors.ir import PullRequestEvent, PushEvent
    from actors.render.discovery import Discovery
    from actors.render.envelope import DeclaredPipeline
    from actors.settings import LiveSettings
    from actors.source_hosts.host import SourceHost
    from storage import Build, NewOrigin, Pipeline, Repository, Storage

_HEADS = "refs/heads/"
_BUILT_BEFORE = "it has been built before"
_NO_CREDIT = "the organization has no credit, and this service requires it: add some, then push again or rebuild"
_MOST_NAMED = 10
_MOST_CHARACTERS = 300


@immutable
class PushedCommit:
    """A commit that a push or pull request brought.

    ``changed`` are the files that differ, None if that is not known. Pipelines that are not known yet are made if the
    commit ``registers`` them; if it is ``followed``, all that it does not declare are archived. Each pipeline is built
    once for it if it is built ``once``, however often it is brought.
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


@immutable
class AddedBuilds:
    """The builds that a commit got, or the reason why it got none.

    ``ids`` are those of its builds and of the ones that they supersede.
    """

    ids: tuple[int, ...]
    builds: tuple[Build, ...]
    reason: str = ""

    @property
    def outcome(self) -> str:
        """The builds, or the reason, in words."""
        if not self.builds:
            return f"0 builds: {self.reason}"
        count = "1 build" if len(self.builds) == 1 else f"{len(self.builds)} builds"
        return f"{count}: {', '.join(_in_words(each) for each in self.builds)}"

    @property
    def pages(self) -> list[str]:
        """The paths of the builds' pages."""
        return [each.page for each in self.builds]


@immutable
class _Wanted:
    """A pipeline to build, or why it cannot be."""

    pipeline: Pipeline
    definition: str | None = None
    failure: str | None = None


class CommitBuilds:
    """Makes the builds of commits. It renders in a VM, which blocks. Safe in any thread."""

    def __init__(
        self,
        *,
        storage: Storage,
        discovery: Discovery,
        live_settings: LiveSettings,
        root: Address[BuildCreated | CancelBuild],
        hosts: Mapping[str, SourceHost],
    ) -> None:
        self._storage = storage
        self._discovery = discovery
        self._live_settings = live_settings
        self._root = root
        self._hosts = hosts

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
        if isinstance(declared, RenderFailed):
            wanted = self._undeclared(commit, str(declared))
        else:
            wanted = self._wanted(commit, declared)
        made = [self._create(each, commit) for each in wanted]
        reasons = [each for each in made if isinstance(each, str)] or [self._unwanted(commit, declared)]
        return self._added(commit, [each for each in made if not isinstance(each, str)], reasons)

    def add_unrendered(self, commit: PushedCommit) -> AddedBuilds:
        """Add builds of a commit whose pipeline files may not be read yet, as `add` does.

        The triggers are those that the repository declared last.
        """
        builds, reasons = [], []
        for wanted in self._undeclared(commit, ""):
            if self._is_built(wanted.pipeline, commit):
                reasons.append(_BUILT_BEFORE)
            else:
                build = self._storage.renders.begin(wanted.pipeline, commit.new, None)
                builds.append(self._recorded(build, commit))
        return self._added(commit, builds, reasons or [f"no known pipeline has a trigger for {commit.event}"])

    def _added(self, commit: PushedCommit, builds: Sequence[Build], reasons: Iterable[str]) -> AddedBuilds:
        superseded = [each for build in builds for each in self._supersede(build, commit)]
        ids = (*(build.id for build in builds), *superseded)
        return AddedBuilds(ids, tuple(builds), "; ".join(dict.fromkeys(reasons)))

    def _unwanted(self, commit: PushedCommit, declared: Envelope | RenderFailed) -> str:
        """Return why no pipeline is wanted for a commit."""
        if isinstance(declared, RenderFailed):
            last_line = str(declared).rpartition("\n")[2]  # a stranger's words, so without its own line ends
            return f"its pipeline files cannot be read, and no pipeline that is known wants it: {last_line}"
        if not declared.pipelines:
            return "it declares no pipeline in .hm/*.py"
        if any(wants(each.triggers, commit.event) for each in declared.pipelines):
            if not commit.registers:
                return "its pipelines are new, and a pull request from a fork makes none"
            return "its pipelines are not known, and render.register is off"
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
        """Return the pipelines whose triggers want a commit; those that are not known yet are registered."""
        repository = _declaring(commit.repository)
        registers = commit.registers and self._live_settings.now.render.register
        if commit.followed:
            declared = {each.slug: each.declaration for each in envelope.pipelines}
            self._storage.declarations.follow(repository, declared)
        wanted = []
        for each in envelope.pipelines:
            if wants(each.triggers, commit.event):
                pipeline = self._storage.declarations.claim(repository, each.slug)
                if pipeline is None and registers:
                    branch = commit.default_branch or commit.new.branch
                    pipeline = self._storage.declarations.register(repository, each.slug, branch, each.declaration)
                if pipeline is not None:
                    wanted.append(_with_definition(pipeline, each))
        return wanted

    def _undeclared(self, commit: PushedCommit, failure: str) -> list[_Wanted]:
        """Return the known pipelines whose last declaration wants a commit."""
        known = self._storage.declarations.of_repository(_declaring(commit.repository))
        return [
            _Wanted(pipeline, failure=failure) for pipeline, declared in known if wants(declared.triggers, commit.event)
        ]

    def _create(self, wanted: _Wanted, commit: PushedCommit) -> Build | str:
        """Store a build; return why not if the commit does not concern its pipeline, or it has been built."""
        if self._is_built(wanted.pipeline, commit):
            return _BUILT_BEFORE
        try:
            build = add_or_reject(
                self._storage,
                self._live_settings.now.ir,
                wanted.pipeline,
                commit.new,
                wanted.definition,
                no_credit=_NO_CREDIT,
                failure=(wanted.failure or "") if wanted.definition is None else None,
                changed=commit.changed,
            )
        except NotConcerned as why:
            return str(why)
        return self._recorded(build, commit)

    def _is_built(self, pipeline: Pipeline, commit: PushedCommit) -> bool:
        return commit.once and self._storage.build_origins.has_build(pipeline.id, commit.origin, commit.new.commit)

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


def _in_words(build: Build) -> str:
    name = f"{build.pipeline_slug} #{build.number}"
    if build.state is BuildState.FAILED:
        lines = ((build.error_message or "").strip() or "it cannot be run").splitlines()
        why = lines[-1] if "Traceback" in lines[0] else lines[0]  # a traceback ends with its error
        return f"{name}, which failed: {why[:_MOST_CHARACTERS]}"
    return f"{name}, which waits for an approval" if build.waits_for is WaitsFor.APPROVAL else name


def _declaring(repository: Repository) -> DeclaringRepository:
    return DeclaringRepository(repository.organization_id, repository.repo_name, repository.url)


def _with_definition(pipeline: Pipeline, declared: DeclaredPipeline) -> _Wanted:
    try:
        return _Wanted(pipeline, definition=declared.pipeline_ir)
    except RenderFailed as failure:
        return _Wanted(pipeline, failure=str(failure))
