"""From a pull request to the builds of its head (wire-decisions.md, "Source hosts")."""

from __future__ import annotations

import logging
import re
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from actors.ir import EVENT_VARIABLE, PullRequestEvent, skips_builds
from actors.render.envelope import RenderFailed
from actors.repositories.commit_builds import PushedCommit
from actors.repositories.fetching.git import CommitRefused, LimitReached
from actors.repositories.fetching.remote import GitError
from actors.repositories.merging import merged
from actors.repositories.packing.packing import Extras, pack_commit
from actors.source_hosts.host import FOUND_OPEN, MOST_OPEN, HostError, PullRequest
from storage import (
    FetchedSource,
    ForkApproval,
    MergeAgain,
    NewBuild,
    NewOrigin,
    OriginEvent,
    PullRequestBuild,
    TooManyBuilds,
    VerifiedEvent,
    pull_request_ref,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.render.envelope import Envelope
    from actors.repositories.commit_builds import CommitBuilds, CommitParts
    from actors.repositories.fetching.mirror import Commit, Heads, Mirror
    from storage import Delivery, Repository

_log = logging.getLogger(__name__)

_HEADS = "refs/heads/"
_COMMIT = re.compile(r"[0-9a-f]{12,64}")
"""The name of a commit, which Bitbucket abbreviates."""

_REF = re.compile(r"refs/[^\s:?*\[\\^~]+")
_CLOSED, _PUSHED = "closed", "synchronize"
SKIPPED = "the message of its commit says [skip ci] or [ci skip]"
_LABEL = "rebuild"
"""The label of pull requests whose merges are built again, if they are where they are labelled."""

_MOST_ATTEMPTS = 8
"""About twenty minutes of them: hosts report a pull request moments before its commits can be fetched."""


class HeadUnavailable(Exception):
    """The head of a pull request cannot be fetched, or is not there yet; another attempt may help."""


class _Trust(NamedTuple):
    """The trust in a pull request: the origin of untrusted builds, and why they need an approval."""

    untrusted_origin: str | None = None
    approval_reason: str | None = None


class _Target(NamedTuple):
    """The branch that a head is merged into, with the commits of the branch and of the merge.

    The merge is None where they conflict, and the branch's commit where there is no such branch. Without a ``branch``
    the head itself is built.
    """

    branch: str | None = None
    base: str | None = None
    merge: str | None = None


_HEAD_ITSELF = _Target()


class PullRequestBuilds:
    """Builds the heads of pull requests. It blocks: it fetches, renders in a VM, and asks the host.

    The owner of a fork decides what its commits hold. So they never enter the mirror, are rendered only once that is
    approved, and declare no pipeline that is not known.
    """

    def __init__(self, parts: CommitParts, commits: CommitBuilds) -> None:
        self._storage = parts.storage
        self._live_settings = parts.live_settings
        self._commits = commits
        self._hosts = parts.hosts

    def process(self, mirror: Mirror, repository: Repository, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Build the changes that deliveries report; return the deliveries that are done.

        It is postponed while its head cannot be fetched or its organization may have no more builds, and dropped when a
        later report has another head. Raises GitError and VmError.
        """
        changes = [(each, change) for each in deliveries for change in self._changes(each)]
        if not changes:
            return list(deliveries)
        heads, late = mirror.fetch(), set()
        for delivery, change in changes:
            try:
                self.build(mirror, repository, heads, change)
            except HeadUnavailable as error:
                _log.warning("%s", error)
                self._storage.deliveries.postpone(delivery, str(error), _MOST_ATTEMPTS)
                late.add(delivery.id)
            except TooManyBuilds as error:
                self._wait(repository, delivery, change, str(error))
                late.add(delivery.id)
        postponed = self._storage.deliveries.postponed(repository.id)
        moot = [
            waiting
            for waiting in postponed
            for old in self._changes(waiting)
            if any(waiting.id < later.id and _overtakes(new, old) for later, new in changes)
        ]
        return [each for each in deliveries if each.id not in late] + moot

    def build_open(self, mirror: Mirror, repository: Repository) -> bool:
        """Build the pull requests of before the connection of a repository, which its host does not report.

        Also build those again whose target has moved, if the repository wants that: once for each commit of the target.
        Return False if it is to be called again: those from forks make no pipeline, so they wait for the first that is
        known. One whose head cannot be had is left to its next change. Raises HostError, GitError and VmError.
        """
        found = self._hosts[repository.provider].open_pull_requests(repository)
        new = [each for each in reversed(found) if self._is_due(repository, each)]  # so the last has the last number
        of_forks = [each for each in new if each.from_fork]
        self._build_each(mirror, repository, [each for each in new if not each.from_fork])
        if of_forks and not self._commits.knows_pipelines(repository):
            _log.info("the pull requests of %s from forks wait for a push that declares a pipeline", repository.url)
            return False
        self._build_each(mirror, repository, of_forks)
        return True

    def _build_each(self, mirror: Mirror, repository: Repository, changes: Sequence[PullRequest]) -> None:
        if not changes:
            return
        heads = mirror.fetch()
        for change in changes:
            base = heads.commits.get(f"{_HEADS}{change.target_branch}")
            origins = self._storage.build_origins
            if base is not None and origins.has_merge(repository.id, change.number, change.head_commit, base):
                continue
            try:
                self.build(mirror, repository, heads, change)
            except HeadUnavailable as error:
                _log.warning("%s", error)
                self._record(repository, change, f"0 builds: {error}")

    def _is_due(self, repository: Repository, change: PullRequest) -> bool:
        """Tell whether an open pull request is new, or built again when its target has moved."""
        if self._merges(repository, change) and (
            repository.merge_again is MergeAgain.ALWAYS
            or (repository.merge_again is MergeAgain.LABELLED and _LABEL in change.labels)
        ):
            return True
        return self._is_new(repository, change)

    def _merges(self, repository: Repository, change: PullRequest) -> bool:
        return repository.pull_requests is PullRequestBuild.MERGED and change.action != _CLOSED

    def _is_new(self, repository: Repository, change: PullRequest) -> bool:
        found = self._storage.push_outcomes.find(repository.id, change.head_ref, change.head_commit)
        return found is None or not found.commit.startswith(change.head_commit)

    def build(self, mirror: Mirror, repository: Repository, heads: Heads, change: PullRequest) -> None:
        """Build a change of a pull request, once for each pipeline, commit and target.

        Raises HeadUnavailable, TooManyBuilds and VmError.
        """
        if change.action == _CLOSED:
            self._commits.announce(self._storage.superseded.cancel_closed(repository.id, change.number))
            self._storage.previews.end_of_pull_request(repository.id, change.number)
        name = f"pull request {change.number} of {repository.url}"
        if not _COMMIT.fullmatch(change.head_commit) or not _REF.fullmatch(change.head_ref):
            _log.warning("%s is not built: its host names no commit and ref", name)
            self._record(repository, change, "0 builds: its host names no commit and ref")
            return
        try:
            with mirror.borrowed(change.url) as fork:
                try:
                    fork.fetch_ref(change.head_ref)
                except LimitReached:
                    raise  # a stranger may not have the service spend it again and again
                except GitError as error:
                    raise HeadUnavailable(f"{name} cannot be fetched: {error}") from error
                commit = fork.fetched(change.head_commit)
                if commit is None:
                    raise HeadUnavailable(f"{name} does not have the commit {change.head_commit}")
                self._build(fork, repository, heads, replace(change, head_commit=commit))
        except GitError as error:
            _log.warning("%s is not built: %s", name, error)
            self._record(repository, change, f"0 builds: {error}")

    def _wait(self, repository: Repository, delivery: Delivery, change: PullRequest, why: str) -> None:
        """Postpone a change until builds have ended, and say so once beside the pushes of its repository."""
        outcome = f"0 builds: it waits, because {why}"
        _log.warning("pull request %d of %s: %r", change.number, repository.url, outcome)
        if not delivery.attempts:
            self._record(repository, change, outcome)
        self._storage.deliveries.postpone(delivery, outcome)

    def _record(self, repository: Repository, change: PullRequest, outcome: str, pages: Sequence[str] = ()) -> None:
        self._storage.push_outcomes.record(
            repository.id, change.head_ref or "?", change.head_commit, outcome, pages, change.number
        )

    def _changes(self, delivery: Delivery) -> list[PullRequest]:
        return [each for each in self._hosts[delivery.provider].events(delivery) if isinstance(each, PullRequest)]

    def _build(self, fork: Mirror, repository: Repository, heads: Heads, change: PullRequest) -> None:
        """Build a change; then destroy the VM that rendered it."""
        with ExitStack() as leaving:
            self._render_and_build(fork, repository, heads, change, leaving)

    def _render_and_build(
        self, fork: Mirror, repository: Repository, heads: Heads, change: PullRequest, leaving: ExitStack
    ) -> None:
        head = fork.commit(change.head_commit)
        if skips_builds(head.message):
            with self._storage.transaction():
                self._record(repository, change, f"0 builds: {SKIPPED}")
                if not change.from_fork:  # a stranger's message must not stand for a required check
                    event = PullRequestEvent(change.target_branch, change.action)
                    self._commits.skip_all(repository, event, change.head_commit, SKIPPED, change.branch)
            return
        self._storage.build_room.require(repository.organization_id, from_fork=change.from_fork)
        trust = self._trust(repository, change)
        archive = None
        declared: Envelope | RenderFailed | None = None
        target = heads.commits.get(f"{_HEADS}{change.target_branch}")
        into = _HEAD_ITSELF
        try:
            if self._merges(repository, change):
                into = _Target(change.target_branch, target)
                into = into._replace(merge=_merged(fork, into, change))
            archive = self._pack(fork, repository, heads, change, into)
            if trust.approval_reason is None:
                declared = self._commits.declared(repository, archive, leaving, from_fork=change.from_fork)
        except CommitRefused as error:
            declared = RenderFailed.exited("source fetch", 1, str(error))
        except RenderFailed as failure:
            declared = failure
        base = None if target is None else fork.merge_base(target, change.head_commit)
        commit = PushedCommit(
            repository,
            PullRequestEvent(change.target_branch, change.action),
            _origin(repository, change, head),
            _new_build(change, head, archive, trust, into),
            changed=fork.changed(base, change.head_commit),
            default_branch=heads.default_branch,
            registers=not change.from_fork,
            once=change.action != _CLOSED,
            base=None if repository.merge_again is MergeAgain.NEVER else into.base,
        )
        with self._storage.transaction():
            added = self._commits.add_unrendered(commit) if declared is None else self._commits.add(commit, declared)
            self._record(repository, change, added.outcome, added.pages)
        self._commits.announce(added.ids)
        _log.info("%s is at %s: %r", change.head_ref, change.head_commit, added.outcome)

    def _pack(self, fork: Mirror, repository: Repository, heads: Heads, change: PullRequest, into: _Target) -> bytes:
        """Return the source of a head, or of its merge, which is on no branch."""
        branches = heads.branches(heads.default_branch, change.target_branch)
        extras = Extras(repository.submodules, repository.lfs, from_stranger=change.from_fork)
        settings = self._live_settings.now.source
        if into.merge is not None:
            ref = f"refs/pull/{change.number}/merge"
            return pack_commit(fork, ref, into.merge, settings, branches, extras)
        ref = f"{_HEADS}{change.branch}" if _REF.fullmatch(f"{_HEADS}{change.branch}") else change.head_ref
        return pack_commit(fork, ref, change.head_commit, settings, branches, extras)

    def source_of(self, mirror: Mirror, repository: Repository, heads: Heads, number: int) -> FetchedSource:
        """Return the source of an open pull request, for a build that somebody asks for.

        It is trusted as if its host had reported it. Raises GitError, HostError and RenderFailed.
        """
        found = self._hosts[repository.provider].open_pull_requests(repository)
        change = next((each for each in found if each.number == number), None)
        if change is None or not (_COMMIT.fullmatch(change.head_commit) and _REF.fullmatch(change.head_ref)):
            message = f"{repository.url} has no open pull request {number} among the {MOST_OPEN} that changed last"
            raise GitError(message)
        with mirror.borrowed(change.url) as fork:
            fork.fetch_ref(change.head_ref)
            commit = fork.fetched(change.head_commit)
            if commit is None:
                raise GitError(
                    f"pull request {number} does not have the commit {change.head_commit} any more: try again"
                )
            change, trust = replace(change, head_commit=commit), self._trust(repository, change)
            into = _HEAD_ITSELF
            if self._merges(repository, change):
                into = _Target(change.target_branch, heads.commits.get(f"{_HEADS}{change.target_branch}"))
                into = into._replace(merge=_merged(fork, into, change))
            archive = self._pack(fork, repository, heads, change, into)
            new = _new_build(change, fork.commit(commit), archive, trust, into)
        return FetchedSource(
            new.branch,
            commit,
            new.message or "",
            new.source_archive or b"",
            {name: value for name, value in new.env.items() if name != EVENT_VARIABLE},
            new.untrusted_origin,
            new.from_fork,
            new.approval_reason,
            new.verified_ref,
            ref=change.head_ref,
            pull_request=number,
            base_commit=new.base_commit,
            merge_commit=new.merge_commit,
        )

    def _trust(self, repository: Repository, change: PullRequest) -> _Trust:
        if not change.from_fork:
            return _Trust()
        host = self._live_settings.now.repositories
        organization = self._storage.organizations.by_id(repository.organization_id)
        own_secrets = None if organization is None else organization.fork_secrets
        own_approval = None if organization is None else organization.fork_approval
        secrets = host.fork_secrets if own_secrets is None else own_secrets
        origin = None if secrets else f"pull/{repository.id}/{change.number}"
        match own_approval or ForkApproval(host.fork_approval):
            case ForkApproval.NEVER:
                return _Trust(origin)
            case ForkApproval.ALWAYS:
                return _Trust(origin, "every pull request from a fork needs one")
            case ForkApproval.STRANGERS:
                stranger = self._stranger(repository, change)
                return _Trust(origin, stranger and f"{stranger} may not push to {repository.repo_name}")

    def _stranger(self, repository: Repository, change: PullRequest) -> str | None:
        """Return the author or sender of a change who is not known to be allowed to push; else None."""
        author, sender = change.author, change.sender
        if author is None:
            return "its author"
        if not (self._may_push(repository, author) if change.trusted is None else change.trusted):
            return author
        if sender is None:
            return "the one who pushed the commit" if change.action in {_PUSHED, FOUND_OPEN} else None
        return sender if sender != author and not self._may_push(repository, sender) else None

    def _may_push(self, repository: Repository, login: str) -> bool:
        """Tell whether somebody may push, by the host; False if it does not say."""
        try:
            return self._hosts[repository.provider].trusts(repository, login)
        except HostError as error:
            _log.warning("the host of %s does not say whether %s may push: %s", repository.url, login, error)
            return False


def _overtakes(new: PullRequest, old: PullRequest) -> bool:
    """Tell whether a change of a pull request makes an older one of it moot."""
    other = (new.head_commit, new.target_branch) != (old.head_commit, old.target_branch)
    return new.number == old.number and (new.action == _CLOSED or other)


def _origin(repository: Repository, change: PullRequest, head: Commit) -> NewOrigin:
    return NewOrigin(
        repository.id,
        OriginEvent.PULL_REQUEST,
        change.head_ref,
        pull_request=change.number,
        target_branch=change.target_branch,
        actor=change.author,
        author_name=head.author_name,
        author_email=head.author_email,
    )


def _merged(fork: Mirror, into: _Target, change: PullRequest) -> str:
    """Return the merge of a head into a target, made in the fork's mirror. Raises RenderFailed."""
    message = f"Merge pull request {change.number} into {change.target_branch}"
    return merged(fork, into.base, change.target_branch, change.head_commit, message)


def _new_build(change: PullRequest, head: Commit, archive: bytes | None, trust: _Trust, into: _Target) -> NewBuild:
    """Return the build of a head. A fork's branch never has the name of one of the repository's own."""
    merge = {} if into.merge is None else {"CI_BASE_COMMIT": into.base or "", "CI_MERGE_COMMIT": into.merge}
    branch = f"{change.author or f'pull-{change.number}'}:{change.branch}" if change.from_fork else change.branch
    return NewBuild(
        branch,
        change.head_commit,
        head.message,
        source="webhook",
        env={
            EVENT_VARIABLE: "pull_request",
            "CI_PULL_REQUEST": str(change.number),
            "CI_TARGET_BRANCH": change.target_branch,
            **merge,
        },
        source_archive=archive,
        untrusted_origin=trust.untrusted_origin,
        from_fork=change.from_fork,
        approval_reason=trust.approval_reason,
        verified_event=VerifiedEvent.PULL_REQUEST,
        verified_ref=pull_request_ref(change.number),
        base_commit=into.base,
        merge_commit=into.merge,
    )
