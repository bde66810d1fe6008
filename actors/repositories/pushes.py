"""From a push to the builds of what its commit declares (wire-decisions.md, "Source hosts")."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from actors.ir import IrError, PushEvent, load, skips_builds, wants
from actors.messages import BuildCreated
from actors.render.discovery import discover
from actors.render.envelope import RenderFailed
from actors.repositories.git import GitError, TooLarge
from actors.repositories.mirror import Mirror
from actors.repositories.packing import pack_commit
from actors.source_hosts.host import HostError, PushedRef
from storage import BuildErrorCode, NewBuild, NewOrigin, OriginEvent, slugify

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from actors import vms
    from actors.addresses import Address
    from actors.engine_settings import LiveSettings
    from actors.render.envelope import DeclaredPipeline, Envelope
    from actors.repositories.mirror import Heads
    from actors.source_hosts.host import SourceHost
    from storage import Build, Clock, Delivery, Pipeline, Repository, Storage

__all__ = ["PushBuilds"]

_log = logging.getLogger(__name__)

_BRANCH, _TAG = "refs/heads/", "refs/tags/"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A pipeline to build, or why it cannot be."""

    pipeline: Pipeline
    definition: str | None = None
    failure: str | None = None


class PushBuilds:
    """Compares a repository's heads with those looked at last, and builds what was pushed meanwhile.

    It blocks: it fetches, and renders in a VM. A second thread waits while one uses the same mirror.
    """

    def __init__(
        self,
        *,
        storage: Storage,
        provider: vms.Provider,
        images: vms.Images,
        clock: Clock,
        live_settings: LiveSettings,
        root: Address[BuildCreated],
        mirrors: Path,
        hosts: Mapping[str, SourceHost],
    ) -> None:
        self._storage = storage
        self._provider = provider
        self._images = images
        self._clock = clock
        self._live_settings = live_settings
        self._root = root
        self._mirrors = mirrors
        self._hosts = hosts
        self._locks: dict[int, threading.Lock] = {}

    def check(self, repository: Repository) -> None:
        """Fetch a repository and build its pushes, once each. Raises GitError and VmError.

        What was there before the repository was connected is no push: at the first check only what was reported is.
        """
        with self._lock(repository):
            self._check(repository)

    def head_build(self, repository: Repository, source_slug: str, branch: str, source: str) -> NewBuild:
        """Return a build of the head of a branch, with the pipeline that this commit declares.

        Raises GitError, RenderFailed and VmError.
        """
        settings, ref = self._live_settings.now.repositories, f"{_BRANCH}{branch}"
        with self._lock(repository):
            mirror = self._mirror(repository)
            commit = mirror.fetch().commits.get(ref)
            if commit is None:
                raise GitError(f'{repository.url} has no branch "{branch}"')
            message = mirror.commit(commit).message
            archive = pack_commit(mirror, ref, commit, settings)
        declared = self._declared(repository, archive).find(source_slug)
        if declared is None:
            missing = f'the commit {commit} of {repository.url} declares no pipeline "{source_slug}"'
            raise RenderFailed(missing)
        return NewBuild(
            branch, commit, message, source=source, pipeline_ir=declared.pipeline_ir, source_archive=archive
        )

    def _lock(self, repository: Repository) -> threading.Lock:
        return self._locks.setdefault(repository.id, threading.Lock())

    def _mirror(self, repository: Repository) -> Mirror:
        """Return a repository's mirror, with what its host asks for at this time. Raises GitError."""
        try:
            credential = self._hosts[repository.provider].credential(repository)
        except HostError as error:
            raise GitError(str(error)) from error
        settings = self._live_settings.now.repositories
        return Mirror(self._mirrors / repository.uuid, repository.url, settings, credential)

    def _check(self, repository: Repository) -> None:
        mirror = self._mirror(repository)
        repositories, deliveries = self._storage.repositories, self._storage.deliveries
        before = deliveries.pending(repository.id)
        heads, known = mirror.remote_heads(), repositories.heads(repository.id)
        if repository.checked_at is None and not known:
            known = _before(heads.commits, self._pushed(before))
            repositories.record_heads(repository, known)
        if heads.commits != known or (repository.checked_at is None and repository.connection_id is None):
            self._build_pushes(mirror, repository)
        with self._storage.transaction():
            repositories.checked(repository, heads.default_branch)
            deliveries.processed(repository.id, before)

    def _build_pushes(self, mirror: Mirror, repository: Repository) -> None:
        repositories = self._storage.repositories
        heads = mirror.fetch()
        # Those that came meanwhile tell the order of what was fetched. They wait on, as they may be of later pushes.
        reported = self._pushed(self._storage.deliveries.pending(repository.id))
        self._build_reported(mirror, repository, reported, heads)
        known = repositories.heads(repository.id)
        actors = {(each.ref, each.new): each.actor for each in reported}
        for ref in sorted(known.keys() - heads.commits.keys()):
            repositories.move_head(repository, ref, known[ref], None)
        for ref, commit in sorted(heads.commits.items()):
            if known.get(ref) != commit:
                push = PushedRef(ref, known.get(ref), commit, actors.get((ref, commit)))
                self._build(mirror, repository, push, commit, heads.default_branch)

    def _pushed(self, deliveries: Iterable[Delivery]) -> list[PushedRef]:
        events = (event for each in deliveries for event in self._hosts[each.provider].events(each))
        return [each for each in events if isinstance(each, PushedRef)]

    def _build_reported(
        self, mirror: Mirror, repository: Repository, reported: Iterable[PushedRef], heads: Heads
    ) -> None:
        """Build the reported pushes whose heads have moved on since, in the order of the pushes.

        The last one is found by the heads, also without a delivery, and so is one that says what is not true.
        """
        for pushed in reported:
            ref, new, now = pushed.ref, pushed.new, heads.commits.get(pushed.ref)
            known = self._storage.repositories.heads(repository.id)
            if not ref.startswith(_BRANCH) or known.get(ref) != pushed.old or now is None or new is None:
                continue
            if new != now and mirror.has(new):
                self._build(mirror, repository, pushed, new, heads.default_branch)

    def _build(
        self, mirror: Mirror, repository: Repository, push: PushedRef, commit: str, default_branch: str | None
    ) -> None:
        """Build a head's new commit and note that, in one transaction."""
        ref, old = push.ref, push.old
        pushed = mirror.commit(commit)
        if skips_builds(pushed.message):
            self._storage.repositories.move_head(repository, ref, old, commit)
            return
        is_tag = ref.startswith(_TAG)
        name = ref.removeprefix(_TAG if is_tag else _BRANCH)
        event = PushEvent(name, is_tag)
        follow = not is_tag and name == default_branch
        archive = None
        try:
            archive = pack_commit(mirror, ref, commit, self._live_settings.now.repositories)
            envelope: Envelope | RenderFailed = self._declared(repository, archive)
        except TooLarge as error:
            envelope = RenderFailed.exited("source fetch", 1, str(error))
        except RenderFailed as failure:
            envelope = failure
        env = {"CI_TAG": name} if is_tag else {}
        new = NewBuild(name, commit, pushed.message, source="webhook", env=env, source_archive=archive)
        origin = NewOrigin(
            repository.id,
            OriginEvent.TAG if is_tag else OriginEvent.PUSH,
            ref,
            actor=push.actor,
            author_name=pushed.author_name,
            author_email=pushed.author_email,
        )
        build_ids = []
        with self._storage.transaction():
            if not self._storage.repositories.move_head(repository, ref, old, commit):
                return
            if isinstance(envelope, RenderFailed):
                wanted = self._undeclared(repository, event, str(envelope))
            else:
                wanted = self._wanted(repository, event, envelope, default_branch or name, follow=follow)
            for each in wanted:
                build = self._create(each, new)
                self._storage.build_origins.record(build.id, origin, reports=self._hosts[repository.provider].reports)
                if build.error_code is None:
                    build_ids.append(build.id)
        for build_id in build_ids:
            self._root.post(BuildCreated(build_id))
        _log.info("%s of %s is at %s: %d builds", ref, repository.url, commit, len(wanted))

    def _declared(self, repository: Repository, archive: bytes) -> Envelope:
        """Return the pipelines that a commit declares. Raises RenderFailed and VmError."""
        organization = self._storage.organizations.by_id(repository.organization_id)
        return discover(
            self._storage,
            self._provider,
            self._images,
            self._clock,
            self._live_settings.now,
            organization="" if organization is None else organization.slug,
            slug=slugify(repository.repo_name) or "pipeline",
            archive=archive,
        )

    def _wanted(
        self, repository: Repository, event: PushEvent, envelope: Envelope, default_branch: str, *, follow: bool
    ) -> list[_Wanted]:
        """Return the pipelines whose triggers want a push; those that are not known yet are registered."""
        organization_id, repo_name = repository.organization_id, repository.repo_name
        if follow:
            declared = {each.slug: each.declaration for each in envelope.pipelines}
            self._storage.declarations.follow(organization_id, repo_name, declared)
        wanted = []
        for each in envelope.pipelines:
            if wants(each.triggers, event):
                pipeline = self._storage.pipelines.by_source(organization_id, repo_name, each.slug)
                if pipeline is None and self._live_settings.now.render.register:
                    pipeline = self._storage.declarations.register(
                        organization_id, repo_name, each.slug, default_branch, each.declaration
                    )
                if pipeline is not None:
                    wanted.append(_with_definition(pipeline, each))
        return wanted

    def _undeclared(self, repository: Repository, event: PushEvent, failure: str) -> list[_Wanted]:
        """Return the known pipelines whose last declaration wants a push that cannot be rendered."""
        known = self._storage.declarations.of_repository(repository.organization_id, repository.repo_name)
        return [_Wanted(pipeline, failure=failure) for pipeline, declared in known if wants(declared.triggers, event)]

    def _create(self, wanted: _Wanted, new: NewBuild) -> Build:
        """Store a build; one that cannot begin has an error code."""
        builds, pipeline = self._storage.builds, wanted.pipeline
        without_source = NewBuild(new.branch, new.commit, new.message, source=new.source)
        if not self._has_credit(pipeline.organization_id):
            why = "the organization has no credit, and this service requires it: add some, then push again or rebuild"
            return builds.create_rejected(pipeline, without_source, BuildErrorCode.BILLING_INSUFFICIENT_BALANCE, why)
        if wanted.definition is None:
            return builds.create_rejected(pipeline, without_source, BuildErrorCode.RENDER_FAILED, wanted.failure or "")
        try:
            planned = load(wanted.definition, self._live_settings.now.ir)
        except IrError as error:
            return builds.create_rejected(pipeline, without_source, error.code, error.message)
        planned_build = replace(new, pipeline_ir=wanted.definition, timeout_seconds=planned.timeout_seconds)
        return builds.create(pipeline, planned_build, planned.jobs)

    def _has_credit(self, organization_id: int) -> bool:
        return not self._storage.billing.require_credit or self._storage.ledger.balance(organization_id) > 0


def _with_definition(pipeline: Pipeline, declared: DeclaredPipeline) -> _Wanted:
    try:
        return _Wanted(pipeline, definition=declared.pipeline_ir)
    except RenderFailed as failure:
        return _Wanted(pipeline, failure=str(failure))


def _before(commits: Mapping[str, str], pushed: list[PushedRef]) -> dict[str, str]:
    """Return the heads as they were before the first of these pushes."""
    before = dict(commits)
    for each in reversed(pushed):
        if each.old is None or not each.ref.startswith(_BRANCH):
            before.pop(each.ref, None)
        else:
            before[each.ref] = each.old
    return before
