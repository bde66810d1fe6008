"""Builds that people ask for again, or approve, at a source host."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from actors.builds.adding import add_or_reject
from actors.builds.retrying import repetition
from actors.messages import BuildCreated
from actors.source_hosts.host import RerunAsked
from storage import ApprovalNotAwaited, NewOrigin, PipelineGone, SealBroken, SourceGone, TooManyBuilds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.repositories.commit_builds import CommitBuilds, CommitParts
    from actors.source_hosts.host import ApprovalGiven
    from storage import Build, BuildOrigin, Delivery, NewBuild, Repository


_log = logging.getLogger(__name__)
_NO_CREDIT = "the organization has no credit, and this service requires it: add some, then run it again"


class HostApprovals:
    """Approves builds in the name of people at their host who may push to the repository."""

    def __init__(self, parts: CommitParts, commits: CommitBuilds) -> None:
        self._storage = parts.storage
        self._commits = commits
        self._hosts = parts.hosts

    def give(self, repository: Repository, approval: ApprovalGiven) -> None:
        """Approve the build of a report, if it waits for that. It blocks. Raises HostError."""
        origin = self._storage.build_origins.by_report(repository.id, approval.report_id)
        build = None if origin is None else self._storage.builds.get(origin.build_id)
        if build is None or approval.actor is None:
            return
        if not self._hosts[repository.provider].trusts(repository, approval.actor):
            _log.warning("%s approves build %s, but may not push to %s", approval.actor, build.name, repository.url)
            return
        by = f"{approval.actor} at {repository.provider}"
        try:
            with self._storage.transaction():
                self._storage.approvals.approve(build.id, by)
                self._storage.audit.write(
                    by, "approveBuild", build.name, repository.url, organization=build.organization_slug
                )
        except ApprovalNotAwaited as error:
            _log.info("build %s cannot be approved by %s: %s", build.name, by, error)
        else:
            self._commits.announce([build.id])


class Reruns:
    """Repeats the builds that deliveries ask for, each once a delivery. Safe in any thread.

    The host lets people ask for it who may push. A build from a stranger stays one, and needs an approval again unless
    it had one.
    """

    def __init__(self, parts: CommitParts) -> None:
        self._storage = parts.storage
        self._live_settings = parts.live_settings
        self._root = parts.root
        self._hosts = parts.hosts

    def process(self, repository: Repository, deliveries: Iterable[Delivery]) -> list[Delivery]:
        """Repeat what deliveries ask for; return the deliveries that report other things.

        While the organization may not have another build, what they ask for waits.
        """
        others = []
        for delivery in deliveries:
            asked = [each for each in self._hosts[delivery.provider].events(delivery) if isinstance(each, RerunAsked)]
            if not asked:
                others.append(delivery)
                continue
            try:
                self._storage.build_room.require(repository.organization_id)
            except TooManyBuilds as error:
                self._storage.deliveries.postpone(delivery, f"{error}: it waits until some have ended")
            else:
                self._rerun(repository, delivery, asked)
        return others

    def _rerun(self, repository: Repository, delivery: Delivery, asked: Iterable[RerunAsked]) -> None:
        """Add the builds and note that the delivery was processed, in one transaction."""
        added = []
        with self._storage.transaction():
            for each in asked:
                for origin in self._asked_for(repository, each):
                    new = self._repeat(origin, each.actor)
                    if new is not None:
                        added.append(new)
            count = len(added)
            outcome = f"asked for again: {count} {'build' if count == 1 else 'builds'}"
            self._storage.deliveries.processed(repository.id, [delivery], lambda _delivery: outcome)
        for new in added:
            if new.error_code is None:
                self._root.post(BuildCreated(new.id))
        _log.info("%s asked for builds again: %d", repository.url, len(added))

    def _asked_for(self, repository: Repository, asked: RerunAsked) -> list[BuildOrigin]:
        origins = self._storage.build_origins
        if asked.report_id is None:
            return [] if asked.commit is None else origins.latest_of_commit(repository.id, asked.commit)
        found = origins.by_report(repository.id, asked.report_id)
        if found is not None:
            return [found]
        check = self._storage.commit_checks.by_report(repository.id, asked.report_id)
        return [] if check is None else origins.latest_of_commit(repository.id, check.commit)

    def _repeat(self, origin: BuildOrigin, actor: str | None) -> Build | None:
        """Add a build like that of an origin; None if that runs still, or if it cannot be repeated."""
        build = self._storage.builds.get(origin.build_id)
        if build is None or not build.state.terminal:
            return None
        try:
            new, _ = repetition(self._storage, build, "webhook")
            added = self._add(build, new)
        except (PipelineGone, SourceGone, SealBroken) as error:
            _log.warning("build %s of %s cannot be repeated: %s", build.number, build.pipeline_slug, error)
            return None
        self._storage.build_origins.record(
            added.id,
            NewOrigin(
                origin.repository_id or 0,
                origin.event,
                origin.ref,
                pull_request=origin.pull_request,
                target_branch=origin.target_branch,
                actor=actor or origin.actor,
                author_name=origin.author_name,
                author_email=origin.author_email,
            ),
            reports=True,
        )
        return added

    def _add(self, build: Build, new: NewBuild) -> Build:
        pipeline = self._storage.pipelines.by_id(build.pipeline_id)
        if pipeline is None:
            raise PipelineGone(f"the pipeline of build {build.number} was deleted")
        failure = None
        if not new.pipeline_ir and not new.has_source:
            failure = build.error_message or "nothing is kept of the first build"
        limits, definition = self._live_settings.now.ir, new.pipeline_ir
        return add_or_reject(self._storage, limits, pipeline, new, definition, no_credit=_NO_CREDIT, failure=failure)
