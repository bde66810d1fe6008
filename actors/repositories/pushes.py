"""From a push to the builds of what its commit declares (wire-decisions.md, "Source hosts")."""

from __future__ import annotations

import logging
import shutil
import threading
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, TypeVar, assert_never

from actors.ir import EVENT_VARIABLE, PushEvent, skips_builds
from actors.render.envelope import RenderFailed
from actors.repositories.commit_builds import CommitBuilds, PushedCommit
from actors.repositories.fetching.git import AccessRefused, CommitRefused
from actors.repositories.fetching.mirror import Mirror, clean_up
from actors.repositories.fetching.remote import GitError
from actors.repositories.merge_queue import MergeQueue
from actors.repositories.packing.packing import Extras, pack_commit
from actors.repositories.pull_requests import SKIPPED, PullRequestBuilds
from actors.repositories.refs import found_ref, pull_request_of
from actors.repositories.reruns import HostApprovals, Reruns
from actors.source_hosts.host import ApprovalGiven, HostError, PullRequest, PushedRef, RerunAsked
from storage import FetchedSource, NewBuild, NewOrigin, OriginEvent, TooManyBuilds, VerifiedEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from actors.log_watchers import LogWatchers
    from actors.render.envelope import Envelope
    from actors.repositories.commit_builds import CommitParts
    from actors.repositories.fetching.mirror import Commit, Heads
    from actors.source_hosts.host import HostEvent
    from storage import Delivery, Repository

T = TypeVar("T")

_log = logging.getLogger(__name__)

_BRANCH, _TAG = "refs/heads/", "refs/tags/"
_MOST_SEARCHED = 2_000
"""The most commits among which a culprit is searched."""


class PushBuilds:
    """Compares a repository's heads with those looked at last, and builds what was pushed meanwhile.

    It also has the reported pull requests built, and what was asked for again, and takes the merge queue on.

    It blocks: it fetches, and renders in a VM. A second thread waits while one uses the same mirror.
    """

    def __init__(self, parts: CommitParts, mirrors: Path, watchers: LogWatchers) -> None:
        self._storage = parts.storage
        self._live_settings = parts.live_settings
        self._commits = commits = CommitBuilds(parts)
        self._pull_requests = PullRequestBuilds(parts, commits)
        self._approvals = HostApprovals(parts, commits)
        self._reruns = Reruns(parts)
        self._merge_queue = MergeQueue(parts, commits)
        self._mirrors = mirrors
        self._hosts = parts.hosts
        self._watchers = watchers
        self._locks: dict[str, threading.Lock] = {}

    def check(self, repository: Repository) -> bool:
        """Fetch a repository and build its pushes, once each; tell whether there were any.

        Heads that were there when the repository was connected are no pushes. If they are not known, the first check
        takes what it finds for them, except what deliveries report: hosts report pushes of connected repositories only.
        Pull requests that were open then are built once. Raises GitError, HostError and VmError, and
        TooManyBuilds if some wait because their organization may not have another build.
        """
        return self._fetching(repository, lambda: self._check(repository))

    def announce(self, repository: Repository) -> None:
        """Wake the callers that wait for the outcome of a push."""
        self._watchers.notify(repository.uuid)

    def head_build(
        self, repository: Repository, source_slug: str, branch: str, source: str, event: VerifiedEvent
    ) -> NewBuild:
        """Return a build of the head of a branch, with the pipeline that this commit declares.

        Without it the pipeline is another for each build, and rendered for this one.

        Raises GitError, RenderFailed and VmError.
        """
        ref = f"{_BRANCH}{branch}"

        def fetched() -> tuple[str, str, bytes]:
            mirror = self._mirror(repository)
            heads = mirror.fetch()
            commit = heads.commits.get(ref)
            if commit is None:
                raise GitError(f'{repository.url} has no branch "{branch}"')
            return commit, mirror.commit(commit).message, self._pack(mirror, repository, ref, commit, heads)

        commit, message, archive = self._fetching(repository, fetched)
        with ExitStack() as leaving:
            envelope = self._commits.declared(repository, archive, leaving)
        declared = envelope.find(source_slug)
        if declared is None:
            missing = f'the commit {commit} of {repository.url} declares no pipeline "{source_slug}"'
            raise RenderFailed(missing)
        definition = None if envelope.of_build else declared.pipeline_ir
        return NewBuild(
            branch,
            commit,
            message,
            source=source,
            pipeline_ir=definition,
            source_archive=archive,
            verified_event=event,
            verified_ref=ref,
        )

    def source_of(self, repository: Repository, name: str) -> FetchedSource:
        """Return the source of what somebody names: a branch, a tag, a commit or a pull request.

        Raises GitError, HostError and RenderFailed.
        """
        number = pull_request_of(name)

        def fetched() -> FetchedSource:
            mirror = self._mirror(repository)
            heads = mirror.fetch()
            if number is not None:
                return self._pull_requests.source_of(mirror, repository, heads, number)
            found = found_ref(mirror, heads, name)
            archive = self._pack(mirror, repository, found.ref, found.commit, heads)
            env = {} if found.tag is None else {"CI_TAG": found.tag}
            # A commit below the head may be one that nobody wanted there, and that a later one takes back.
            verified = found.ref if heads.commits[found.ref] == found.commit else None
            message = mirror.commit(found.commit).message
            return FetchedSource(found.name, found.commit, message, archive, env, verified_ref=verified, ref=found.ref)

        return self._fetching(repository, fetched)

    def commits_between(self, repository: Repository, old: str, new: str) -> tuple[str, ...] | None:
        """Return the commits after an old one up to a new one, oldest first; of a merge only the merge.

        None if the old one is not before the new one, or they are more than can be searched. Raises GitError.
        """

        def listed() -> tuple[str, ...] | None:
            mirror = self._mirror(repository)
            mirror.fetch()
            if not (mirror.has(old) and mirror.has(new)) or mirror.merge_base(old, new) != old:
                return None
            options = ("--first-parent", "--reverse")
            commits = tuple(mirror.run("rev-list", *options, "--end-of-options", f"{old}..{new}").decode().split())
            return commits if len(commits) <= _MOST_SEARCHED else None

        return self._fetching(repository, listed)

    def commit_of(self, repository: Repository, commit: str) -> Commit:
        """Return the message and the author of a commit. Raises GitError."""

        def read() -> Commit:
            mirror = self._mirror(repository)
            mirror.fetch_commit(commit)
            return mirror.commit(commit)

        return self._fetching(repository, read)

    def remove_orphans(self) -> None:
        """Delete the mirrors of disconnected repositories, and what killed processes left in others.

        Mirrors in use are left for the next time.
        """
        connected = {each.uuid for each in self._storage.repositories.all()}
        for uuid in {each.name for each in self._mirrors.iterdir()} if self._mirrors.exists() else set():
            lock = self.lock_of(uuid)
            if lock.acquire(blocking=False):
                try:
                    if uuid in connected:
                        clean_up(self._mirrors / uuid)
                    else:
                        shutil.rmtree(self._mirrors / uuid, ignore_errors=True)
                finally:
                    lock.release()

    def _pack(self, mirror: Mirror, repository: Repository, ref: str, commit: str, heads: Heads) -> bytes:
        branches, extras = heads.branches(heads.default_branch), Extras(repository.submodules, repository.lfs)
        return pack_commit(mirror, ref, commit, self._live_settings.now.source, branches, extras)

    def _fetching(self, repository: Repository, work: Callable[[], T]) -> T:
        """Return what ``work`` does with the mirror; again once if the host replaces a refused credential."""
        with self.lock_of(repository.uuid):
            try:
                return work()
            except AccessRefused:
                if not self._hosts[repository.provider].renew_credential(repository):
                    raise
                return work()

    def lock_of(self, uuid: str) -> threading.Lock:
        """Return the lock of a repository, which the thread that reads its mirror holds."""
        return self._locks.setdefault(uuid, threading.Lock())

    def _mirror(self, repository: Repository) -> Mirror:
        """Return a repository's mirror, with its current credential. Raises GitError."""
        try:
            credential = self._hosts[repository.provider].credential(repository)
        except HostError as error:
            raise GitError(str(error)) from error
        settings = self._live_settings.now.repositories
        return Mirror(self._mirrors / repository.uuid, repository.url, settings, credential)

    def _check(self, repository: Repository) -> bool:
        checks, deliveries = self._storage.repository_checks, self._storage.deliveries
        before = self._reruns.process(repository, deliveries.pending(repository.id))
        mirror = self._mirror(repository)
        heads = mirror.remote_heads()
        pushed = self._pushed(before)
        if pushed or not repository.heads_known:
            with self._storage.transaction():
                checks.record_heads(repository, heads.commits)
                for each in reversed(pushed):
                    checks.take_back(repository, each.ref, each.old if each.ref.startswith(_BRANCH) else None)
        moved = heads.commits != checks.heads(repository.id)
        waits = None
        if moved or (repository.checked_at is None and repository.connection_id is None):
            try:
                self._build_pushes(mirror, repository, heads)
            except TooManyBuilds as error:
                waits = TooManyBuilds(f"{error}: pushes are built when some have ended")
        done = self._pull_requests.process(mirror, repository, before)
        for event in self._events(before):
            if isinstance(event, ApprovalGiven):
                self._approvals.give(repository, event)
        if waits is not None:  # what else was reported is done, and may be what ends builds
            done = [each for each in done if not self._pushed([each])]
        with self._storage.transaction():
            checks.checked(repository, heads.default_branch)
            deliveries.processed(repository.id, done, partial(self._outcome, repository))
        if waits is not None:
            raise waits
        now = self._storage.repositories.get(repository.id)  # a push may have moved a target
        asks = now is not None and now.connection_id is not None and not now.pull_requests_known
        if asks and self._pull_requests.build_open(mirror, repository):
            checks.know_pull_requests(repository)
        self._merge_queue.advance(mirror, repository)
        return moved

    def _build_pushes(self, mirror: Mirror, repository: Repository, listed: Heads) -> None:
        checks = self._storage.repository_checks
        heads = mirror.fetch_listed(listed)
        # Deliveries that came during the fetch tell the order of its pushes. Keep them: they may report later pushes.
        reported = self._pushed(self._storage.deliveries.pending(repository.id))
        self._build_reported(mirror, repository, reported, heads)
        known = checks.heads(repository.id)
        actors = {(each.ref, each.new): each.actor for each in reported}
        for ref in sorted(known.keys() - heads.commits.keys()):
            checks.move_head(repository, ref, known[ref], None)
        for ref, commit in sorted(heads.commits.items()):
            if known.get(ref) != commit:
                push = PushedRef(ref, known.get(ref), commit, actors.get((ref, commit)))
                self._build(mirror, repository, push, commit, heads)

    def _outcome(self, repository: Repository, delivery: Delivery) -> str:
        """Return what came of a delivery, a line for each thing that it reports."""
        told = [self._outcome_of(repository, event) for event in self._hosts[delivery.provider].events(delivery)]
        return "\n".join(told) or "it reports nothing that is built"

    def _outcome_of(self, repository: Repository, event: HostEvent) -> str:
        match event:
            case PushedRef():
                return f"{event.ref}: {self._outcome_of_push(repository, event)}"
            case PullRequest():
                ref = event.head_ref
                found = self._storage.push_outcomes.find(repository.id, ref, event.head_commit)
                return f"pull request {event.number}: {found.outcome if found else '0 builds'}"
            case ApprovalGiven():
                return f"an approval of {event.report_id}"
            case RerunAsked():
                return "a build was asked for again"
            case _:
                assert_never(event)

    def _outcome_of_push(self, repository: Repository, push: PushedRef) -> str:
        if push.new is None:
            return "0 builds: it was deleted"
        found = self._storage.push_outcomes.find(repository.id, push.ref, push.new)
        return found.outcome if found else "0 builds: it was known already, or has moved on"

    def _pushed(self, deliveries: Iterable[Delivery]) -> list[PushedRef]:
        return [each for each in self._events(deliveries) if isinstance(each, PushedRef)]

    def _events(self, deliveries: Iterable[Delivery]) -> list[HostEvent]:
        return [event for each in deliveries for event in self._hosts[each.provider].events(each)]

    def _build_reported(
        self, mirror: Mirror, repository: Repository, reported: Iterable[PushedRef], heads: Heads
    ) -> None:
        """Build the reported pushes whose heads have moved on since, in the order of the pushes.

        The last push of each head is found by comparing heads, so a missing or wrong delivery does no harm.
        """
        for pushed in reported:
            ref, new, now = pushed.ref, pushed.new, heads.commits.get(pushed.ref)
            known = self._storage.repository_checks.heads(repository.id)
            if not ref.startswith(_BRANCH) or known.get(ref) != pushed.old or now is None or new is None:
                continue
            if new != now and mirror.has(new):
                self._build(mirror, repository, pushed, new, heads)

    def _build(self, mirror: Mirror, repository: Repository, push: PushedRef, commit: str, heads: Heads) -> None:
        """Build a head's new commit and note that, in one transaction; then destroy the VM that rendered it."""
        with ExitStack() as leaving:
            self._render_and_build(mirror, repository, push, commit, heads, leaving)
            self.announce(repository)

    def _render_and_build(
        self,
        mirror: Mirror,
        repository: Repository,
        push: PushedRef,
        commit: str,
        heads: Heads,
        leaving: ExitStack,
    ) -> None:
        ref, old = push.ref, push.old
        pushed, is_tag = mirror.commit(commit), ref.startswith(_TAG)
        if not is_tag and skips_builds(pushed.message):  # a tag is pushed to be built, whatever its commit says
            with self._storage.transaction():
                if self._storage.repository_checks.move_head(repository, ref, old, commit):
                    self._storage.push_outcomes.record(repository.id, ref, commit, f"0 builds: {SKIPPED}")
                    self._commits.skip_all(repository, PushEvent(ref.removeprefix(_BRANCH)), commit, SKIPPED)
            return
        self._storage.build_room.require(repository.organization_id)
        name = ref.removeprefix(_TAG if is_tag else _BRANCH)
        archive = None
        try:
            archive = self._pack(mirror, repository, ref, commit, heads)
            declared: Envelope | RenderFailed = self._commits.declared(repository, archive, leaving)
        except CommitRefused as error:
            declared = RenderFailed.exited("source fetch", 1, str(error))
        except RenderFailed as failure:
            declared = failure
        env = {EVENT_VARIABLE: "tag", "CI_TAG": name} if is_tag else {EVENT_VARIABLE: "push"}
        origin = NewOrigin(
            repository.id,
            OriginEvent.TAG if is_tag else OriginEvent.PUSH,
            ref,
            actor=push.actor,
            author_name=pushed.author_name,
            author_email=pushed.author_email,
        )
        new = NewBuild(
            name,
            commit,
            pushed.message,
            source="webhook",
            env=env,
            source_archive=archive,
            verified_event=VerifiedEvent.TAG if is_tag else VerifiedEvent.PUSH,
            verified_ref=ref,
        )
        pushed_commit = PushedCommit(
            repository,
            PushEvent(name, is_tag),
            origin,
            new,
            changed=None if is_tag else mirror.changed(old, commit),
            default_branch=heads.default_branch,
            followed=not is_tag and name == heads.default_branch,
        )
        with self._storage.transaction():
            if not self._storage.repository_checks.move_head(repository, ref, old, commit):
                return
            added = self._commits.add(pushed_commit, declared)
            self._storage.push_outcomes.record(repository.id, ref, commit, added.outcome, added.pages)
        self._commits.announce(added.ids)
        level = logging.WARNING if isinstance(declared, RenderFailed) and not added.builds else logging.INFO
        _log.log(level, "%s of %s is at %s: %r", ref, repository.url, commit, added.outcome)
