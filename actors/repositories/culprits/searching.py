"""The rounds of a search, in which commits between a passed and a failed one are built."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from actors.builds.adding import has_credit
from actors.ir import EVENT_VARIABLE
from actors.messages import CancelBuild, PollStorage
from actors.repositories.culprits.choosing import Verdict, left, next_step
from actors.repositories.culprits.telling import CulpritTelling
from actors.repositories.fetching.remote import GitError
from actors.scheduling.pending_reason import admission_block
from actors.source_hosts.host import HostError
from storage import CulpritState, NewBuild, TooManyBuilds, VerifiedEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from actors.parts import Parts
    from actors.repositories.pushes import PushBuilds
    from actors.repositories.settings import RepositorySettings
    from storage import CulpritSearch, Pipeline, Repository

_log = logging.getLogger(__name__)
_SOURCE = "culprit"


class CulpritSearching:
    """Takes searches on. It blocks: it fetches. Safe in any thread, of which one at a time has a search."""

    def __init__(self, parts: Parts, pushes: Callable[[], PushBuilds]) -> None:
        self._storage = parts.storage
        self._live_settings = parts.live_settings
        self._root = parts.addresses.root
        self._sources = parts.addresses.sources
        self._pushes = pushes
        self._telling = CulpritTelling(parts.storage, parts.live_settings)

    def is_due(self, search: CulpritSearch) -> bool:
        """Tell whether a round has ended, or a bound is reached."""
        running = any(not each.state.terminal for each in self._storage.culprits.tests(search.id))
        return not running or self._bound(search) is not None

    def advance(self, search: CulpritSearch) -> bool:
        """Take a search on by a step; False if that is not possible now."""
        try:
            stopped = self._bound(search)
            if stopped is not None:
                self._conclude(search, Verdict(CulpritState.STOPPED, stopped))
            elif search.commits is None:
                self._list(search)
            else:
                commits, outcomes = (search.good_commit, *search.commits), self._outcomes(search)
                step = next_step(commits, outcomes, self._settings.culprit_builds)
                if isinstance(step, Verdict):
                    self._conclude(search, step)
                else:
                    self._build(search, step, left(commits, outcomes))
        except (GitError, HostError, TooManyBuilds) as why:
            _log.warning("the search for what broke build %s waits: %s", search.build_id, why)
            return False
        return True

    @property
    def _settings(self) -> RepositorySettings:
        return self._live_settings.now.repositories

    def _bound(self, search: CulpritSearch) -> str | None:
        """Return why a search has to stop now, in a sentence; None if it may go on."""
        settings, storage = self._settings, self._storage
        if storage.timeline.seconds_since(search.created_at) > settings.culprit_minutes * 60:
            return f"it took longer than {settings.culprit_minutes} minutes{self._so_far(search)}"
        tests, cents = storage.culprits.tests(search.id), storage.culprits.cents(search.id)
        ended = sum(each.state.terminal for each in tests)
        next_one = cents // ended if ended == len(tests) and ended else 0
        if cents and cents + next_one > settings.culprit_cents:
            budget = f"its budget of {settings.culprit_cents} cents is too small"
            return f"{budget}: {_counted(len(tests), 'build')} cost {cents}{self._so_far(search)}"
        return None

    def _so_far(self, search: CulpritSearch) -> str:
        if search.commits is None:
            return ""
        among = left((search.good_commit, *search.commits), self._outcomes(search))
        return f"; it is one of {_counted(among, 'commit')}" if among > 1 else ""

    def _outcomes(self, search: CulpritSearch) -> Mapping[str, Sequence[bool | None]]:
        """Return what builds said of each commit: those of the search, and the two with which it began."""
        found: dict[str, list[bool | None]] = {search.good_commit: [True], search.bad_commit: [False]}
        for each in self._storage.culprits.tests(search.id):
            if each.state.terminal and each.commit is not None:
                found.setdefault(each.commit, []).append(each.passed)
        return found

    def _list(self, search: CulpritSearch) -> None:
        """List the commits of a search; with one alone there is nothing to search. Raises GitError."""
        repository = self._repository(search)
        if repository is None:
            self._conclude(search, Verdict(CulpritState.STOPPED, "the repository is no longer connected"))
            return
        commits = self._pushes().commits_between(repository, search.good_commit, search.bad_commit)
        if commits is None:
            why = "the last commit on which the job passed is not among those before the one on which it failed"
            self._conclude(search, Verdict(CulpritState.UNCLEAR, why))
        elif len(commits) > 1:
            self._storage.culprits.list_commits(search, commits)
        else:
            self._storage.culprits.forget(search)

    def _repository(self, search: CulpritSearch) -> Repository | None:
        pipeline = self._storage.pipelines.by_id(search.pipeline_id)
        return None if pipeline is None else self._storage.repositories.of_pipeline(pipeline)

    def _build(self, search: CulpritSearch, commits: Sequence[str], among: int) -> None:
        """Add the builds of a round and count it, in one transaction. Raises TooManyBuilds."""
        storage = self._storage
        pipeline = storage.pipelines.by_id(search.pipeline_id)
        if pipeline is None or storage.declarations.archived(pipeline.id):
            self._conclude(search, Verdict(CulpritState.STOPPED, "the repository no longer declares the pipeline"))
            return
        if not has_credit(storage, pipeline.organization_id):
            self._conclude(search, Verdict(CulpritState.STOPPED, "the organization has no credit"))
            return
        if admission_block(storage, self._live_settings.now.pool.low_disk_gb) is not None:
            return
        storage.build_room.require(pipeline.organization_id)
        known = len(storage.culprits.tests(search.id))
        with storage.transaction():
            reason = f"it builds {_counted(len(commits), 'commit')}; {among} may have broken the job"
            if storage.culprits.begin_round(search, known, reason):
                for commit in commits:
                    storage.renders.begin(pipeline, _build_of(search, pipeline, commit), None)
        self._sources.post(PollStorage())

    def _conclude(self, search: CulpritSearch, verdict: Verdict) -> None:
        """End a search and write what is told of it, in one transaction. Raises GitError."""
        found = verdict.commit
        repository = None if found is None else self._repository(search)
        commit = None if found is None or repository is None else self._pushes().commit_of(repository, found)
        subject = None if commit is None else commit.message.partition("\n")[0]
        author = None if commit is None else (commit.author_name, commit.author_email)
        write = self._telling.prepared(search, verdict, subject, author)
        with self._storage.transaction():
            canceled = self._storage.culprits.end(
                search, verdict.state, verdict.reason, found, subject=subject, author=author
            )
            if canceled is None:
                return
            write()
        for build_id in canceled:
            self._root.post(CancelBuild(build_id, threading.Event()))
        _log.info("the search for what broke build %s: %s, %s", search.build_id, verdict.state, verdict.reason)


def _build_of(search: CulpritSearch, pipeline: Pipeline, commit: str) -> NewBuild:
    """Return the build of one commit, as if it had been pushed to the default branch."""
    return NewBuild(
        pipeline.default_branch,
        commit,
        source=_SOURCE,
        env={EVENT_VARIABLE: "push"},
        ref=commit,
        verified_event=VerifiedEvent.PUSH,
        culprit_search_id=search.id,
    )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
