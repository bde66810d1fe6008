"""The merge queue: candidates are built on top of each other, and what was built is what lands."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING

from actors.ir import EVENT_VARIABLE, PullRequestEvent, PushEvent, wants
from actors.render.envelope import MergeConflicts, RenderFailed
from actors.repositories.commit_builds import PushedCommit
from actors.repositories.fetching.git import CommitRefused
from actors.repositories.fetching.mirror import PushRefused
from actors.repositories.merging import Merge
from actors.repositories.packing.packing import Extras, pack_commit
from actors.source_hosts.host import HostError
from storage import (
    BuildState,
    MergeState,
    NewBuild,
    NewOrigin,
    OriginEvent,
    TooManyBuilds,
    VerifiedEvent,
    immutable,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.render.envelope import Envelope
    from actors.repositories.commit_builds import AddedBuilds, CommitBuilds, CommitParts
    from actors.repositories.fetching.mirror import Heads, Mirror
    from actors.source_hosts.host import PullRequest
    from storage import Build, QueuedMerge, Repository

_log = logging.getLogger(__name__)

_HEADS = "refs/heads/"
_LONGEST_REASON = 500
_TURN = "it waits for its turn"
_BEHIND = "on top of those before it: it is decided when they have ended"


@immutable
class _Line:
    """The queue of one target as it is worked on.

    ``work`` is a mirror that is thrown away, in which the merges are made, and ``tip`` the commit of the target.
    """

    work: Mirror
    repository: Repository
    heads: Heads
    target: str
    tip: str


class MergeQueue:
    """Takes the merge queues of repositories on by what is possible now.

    It blocks: it fetches, renders and pushes.

    What it does follows from the rows, the builds and the heads of the repository, so it is called again after a crash
    and goes on. A merge has one name for its two commits (`merging.py`): the merge that is pushed is made anew, and is
    the one that was built or has another name.
    """

    def __init__(self, parts: CommitParts, commits: CommitBuilds) -> None:
        self._storage = parts.storage
        self._live_settings = parts.live_settings
        self._commits = commits
        self._hosts = parts.hosts
        self._queues = parts.storage.merge_queues

    def advance(self, mirror: Mirror, repository: Repository) -> None:
        """Build, throw out and land what can be now. Raises GitError, HostError and VmError."""
        if not self._queues.of_repository(repository.id):
            return
        heads = mirror.fetch()
        found = [
            entry
            for each in self._queues.of_repository(repository.id)
            if (entry := self._found(repository, heads, each)) is not None
        ]
        with mirror.borrowed(repository.url) as work:
            for target in dict.fromkeys(each.target for each in found if each.target is not None):
                entries = [each for each in found if each.target == target]
                tip = heads.commits.get(f"{_HEADS}{target}")
                if tip is None:
                    for each in entries:
                        self._end(each, MergeState.LEFT, f"there is no branch {target}")
                else:
                    self._advance(_Line(work, repository, heads, target, tip), entries)

    def _advance(self, line: _Line, entries: Sequence[QueuedMerge]) -> None:
        """Take the entries of one target in their order: each merges into the merge of the one before."""
        tip, base, ahead = line.tip, line.tip, 0
        for entry in entries:
            if entry.merge_commit is not None and _is_in(line.work, entry.merge_commit, line.tip):
                self._landed(entry)  # its push was the last thing before a crash
                continue
            if entry.head is not None and _is_in(line.work, entry.head, line.tip):
                self._end(entry, MergeState.LEFT, f"{line.target} has all its commits")
                continue
            if ahead >= self._live_settings.now.repositories.merge_queue_builds:
                self._wait(entry, _TURN)
                continue
            merge = self._candidate(line, entry, base, first=base == tip)
            if merge is None:
                continue
            if base == tip and self._passed(entry, merge):
                if not self._land(line, entry, merge, tip):
                    return
                after = self._queues.get(entry.id)
                if after is not None and after.state is MergeState.LANDED:
                    tip = base = merge
                continue
            base, ahead = merge, ahead + 1

    def _found(self, repository: Repository, heads: Heads, entry: QueuedMerge) -> QueuedMerge | None:
        """Return an entry with its branch, target and head; None if it has ended by that."""
        branch, target = entry.branch, entry.target
        if entry.pull_request is not None and branch is None:
            change = self._open(repository, entry)
            if change is None:
                self._end(entry, MergeState.LEFT, "its host has no such open pull request")
                return None
            if change.from_fork:
                why = "it is from a fork, whose commits get no secrets: push them to a branch, and add that"
                self._end(entry, MergeState.THROWN_OUT, why)
                return None
            branch, target = change.branch, target or change.target_branch
        target = target or heads.default_branch
        if target is None:
            self._end(entry, MergeState.LEFT, "the repository has no default branch: name the target")
            return None
        head = heads.commits.get(f"{_HEADS}{branch}")
        if head is None:
            self._end(entry, MergeState.LEFT, f"there is no branch {branch}")
            return None
        if entry.head not in {None, head}:
            self._end(entry, MergeState.LEFT, f"its head is another commit now, {head}: add it again")
            return None
        if branch is not None and (branch, target, head) != (entry.branch, entry.target, entry.head):
            self._queues.find(entry, branch, target, head)
        return self._queues.get(entry.id)

    def _open(self, repository: Repository, entry: QueuedMerge) -> PullRequest | None:
        """Return the open pull request of an entry.

        One that changed long ago is in no list. The list is asked for first, because a host answers with 404 also where
        the repository is closed to the service.
        """
        host, number = self._hosts[repository.provider], entry.pull_request
        listed = host.open_pull_requests(repository)
        if all(each.number != number for each in listed):
            listed = host.open_pull_requests(repository, number)
        return next((each for each in listed if each.number == number), None)

    def _candidate(self, line: _Line, entry: QueuedMerge, base: str, *, first: bool) -> str | None:
        """Return the merge that is built for an entry, on top of ``base``; None if others do not wait for it."""
        try:
            made = Merge(base, line.target, entry.head or "", f"Merge {entry.name} into {line.target}").make(line.work)
        except MergeConflicts as error:
            if first:
                self._end(entry, MergeState.THROWN_OUT, str(error))
                return None
            self._wait(entry, f"it conflicts {_BEHIND}")
            return None
        except CommitRefused as error:
            self._end(entry, MergeState.THROWN_OUT, str(error))
            return None
        if entry.merge_commit != made:
            try:
                return self._build(line, entry, base, made)
            except TooManyBuilds as error:
                self._wait(entry, f"it waits, because {error}")
                return None
        bad = next((each for each in self._queues.builds(entry) if _is_bad(each)), None)
        if bad is None:
            return made
        if first:
            self._end(entry, MergeState.THROWN_OUT, f"{bad.name} {_why(bad)}")
            return None
        self._queues.note(entry, f"{bad.name} {_why(bad)} {_BEHIND}")
        return None

    def _passed(self, entry: QueuedMerge, merge: str) -> bool:
        builds = self._queues.builds(entry) if entry.merge_commit == merge else []
        return bool(builds) and all(each.state is BuildState.PASSED for each in builds)

    def _build(self, line: _Line, entry: QueuedMerge, base: str, merge: str) -> str | None:
        """Add the builds of a merge and note that, in one transaction; return the merge if there are any."""
        repository = line.repository
        self._storage.build_room.require(repository.organization_id)
        with ExitStack() as leaving:
            archive = None
            try:
                archive = self._pack(line, merge)
                declared: Envelope | RenderFailed = self._commits.declared(repository, archive, leaving)
            except CommitRefused as error:
                declared = RenderFailed.exited("source fetch", 1, str(error))
            except RenderFailed as failure:
                declared = failure
            commit = _pushed(line, entry, base, merge, archive, _event(declared, entry, line.target))
            with self._storage.transaction():
                now = self._queues.get(entry.id)
                if now is None or not now.is_open:
                    return None
                canceled = self._cancel(entry)
                added = self._commits.add(commit, declared)
                if added.builds:
                    self._queues.build(entry, base, merge)
                else:
                    self._queues.end(entry, MergeState.THROWN_OUT, _untested(entry, added))
            self._commits.announce((*added.ids, *canceled))
            _log.info("%s of %s: %s", entry.name, repository.url, added.outcome)
            return merge if added.builds else None

    def _pack(self, line: _Line, merge: str) -> bytes:
        branches = line.heads.branches(line.heads.default_branch, line.target)
        extras = Extras(line.repository.submodules, line.repository.lfs)
        return pack_commit(
            line.work, "refs/merge-queue/candidate", merge, self._live_settings.now.source, branches, extras
        )

    def _land(self, line: _Line, entry: QueuedMerge, merge: str, tip: str) -> bool:
        """Push a merge whose builds passed; False if the target has moved, so that all is built again."""
        if entry.pull_request is not None:
            change = self._open(line.repository, entry)
            if change is None or (change.branch, change.target_branch) != (entry.branch, entry.target):
                self._end(entry, MergeState.LEFT, "its pull request is not open any more, or has another target")
                return True
        try:
            if not self._push(line, merge, tip):
                why = f"{line.target} moved as {entry.name} was to land: its merge is built anew"
                self._storage.repository_checks.put_off(line.repository, why)
                return False
        except PushRefused as error:
            self._end(entry, MergeState.THROWN_OUT, str(error))
            return True
        self._landed(entry)
        return True

    def _push(self, line: _Line, merge: str, tip: str) -> bool:
        """Move the target to a merge; False if it has moved. Raises PushRefused, GitError and HostError."""
        ref = f"{_HEADS}{line.target}"
        try:
            credential = self._hosts[line.repository.provider].push_credential(line.repository)
        except HostError as error:
            if error.final:
                raise PushRefused(ref, error) from error
            raise
        return line.work.push(ref, old=tip, new=merge, credential=credential)

    def _landed(self, entry: QueuedMerge) -> None:
        self._end(entry, MergeState.LANDED, f"{entry.target} has it as {entry.merge_commit}")

    def _wait(self, entry: QueuedMerge, reason: str) -> None:
        """Let an entry wait without a merge; what was built for it is canceled."""
        with self._storage.transaction():
            canceled = self._cancel(entry)
            self._queues.wait(entry, reason)
        self._commits.announce(canceled)

    def _end(self, entry: QueuedMerge, state: MergeState, reason: str) -> None:
        with self._storage.transaction():
            canceled = self._cancel(entry)
            self._queues.end(entry, state, reason[:_LONGEST_REASON])
        self._commits.announce(canceled)
        _log.info("%s is %s: %s", entry.name, state, reason)

    def _cancel(self, entry: QueuedMerge) -> list[int]:
        """Request the cancel of the builds of an entry that have not ended; return their ids."""
        builds = [] if entry.merge_commit is None else self._queues.builds(entry)
        return [each.id for each in builds if not each.state.terminal and self._storage.builds.request_cancel(each.id)]


def _is_in(work: Mirror, commit: str, tip: str) -> bool:
    """Tell whether a commit is the tip or before it; one that nobody has is not."""
    return work.has(commit) and work.merge_base(commit, tip) == commit


def _is_bad(build: Build) -> bool:
    return build.state.terminal and build.state is not BuildState.PASSED


def _why(build: Build) -> str:
    said = build.state.value if build.state is BuildState.FAILED else f"was {build.state}"
    message = (build.error_message or "").strip().splitlines()
    return f"{said}: {message[0]}" if message else said


def _untested(entry: QueuedMerge, added: AddedBuilds) -> str:
    wanted = f'pull requests to "{entry.target}", or for pushes to the branch "{entry.candidate}"'
    return f"nothing tests it, as no pipeline of it has a trigger for {wanted}: {added.reason}"[:_LONGEST_REASON]


def _event(declared: Envelope | RenderFailed, entry: QueuedMerge, target: str) -> PullRequestEvent | PushEvent:
    """Return the event that a candidate is: of a pull request if a pipeline wants these, else a push."""
    event = PullRequestEvent(target, "synchronize")
    if isinstance(declared, RenderFailed) or any(wants(each.triggers, event) for each in declared.pipelines):
        return event
    return PushEvent(entry.candidate)


def _pushed(
    line: _Line,
    entry: QueuedMerge,
    base: str,
    merge: str,
    archive: bytes | None,
    event: PullRequestEvent | PushEvent,
) -> PushedCommit:
    """Return a candidate as a commit to build: all pipelines run, whatever files it changes."""
    head = line.work.commit(entry.head or "")
    env = {
        EVENT_VARIABLE: "pull_request",
        "CI_TARGET_BRANCH": line.target,
        "CI_BASE_COMMIT": base,
        "CI_MERGE_COMMIT": merge,
    }
    if entry.pull_request is not None:
        env["CI_PULL_REQUEST"] = str(entry.pull_request)
    origin = NewOrigin(
        line.repository.id,
        OriginEvent.PUSH,
        entry.ref,
        target_branch=line.target,
        author_name=head.author_name,
        author_email=head.author_email,
    )
    new = NewBuild(
        entry.candidate,
        entry.head or "",
        head.message,
        source="webhook",
        env=env,
        source_archive=archive,
        verified_event=VerifiedEvent.PULL_REQUEST,
        verified_ref=f"{_HEADS}{entry.candidate}",
        base_commit=base,
        merge_commit=merge,
    )
    return PushedCommit(line.repository, event, origin, new, changed=None, default_branch=line.heads.default_branch)
