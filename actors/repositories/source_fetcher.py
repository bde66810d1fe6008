"""The source fetcher: fetches what builds were asked for by a name, such as a branch."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias, assert_never

from actors.messages import Drain, PollStorage, Reschedule, SourceFetcherMessage
from actors.render.envelope import MergeConflicts, RenderFailed
from actors.repositories.fetching.remote import GitError
from actors.scheduling.pending_reason import admission_block
from actors.source_hosts.host import HostError
from actors.supervision import Supervised
from storage import BuildErrorCode, NewOrigin, OriginEvent, immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actors.parts import Parts
    from actors.render.recording import RenderRecorder
    from actors.repositories.pushes import PushBuilds
    from actors.source_hosts.host import SourceHost
    from storage import Build, FetchedSource, Render, Repository

_AT_ONCE = 4
_OF_ONE = 2
_NOT_CONNECTED = "the repository of the pipeline is no longer connected: connect it, or submit a source"


@immutable
class _Fetch:
    """Work on a worker thread: fetch the source of a build."""

    build_id: int

    def __str__(self) -> str:
        return f"fetch the source of build {self.build_id}"


@immutable
class _Fetched:
    """Worker: the source of this build is there, or why it is not."""

    build_id: int


_Message: TypeAlias = SourceFetcherMessage | _Fetched


class SourceFetcher(Supervised[_Message, _Fetch]):
    """Fetches the sources of builds that name a ref, four at once and of one organization two.

    The queue is the storage: the unfinished renders with a ref. A fetch that an earlier process began starts again.
    """

    def __init__(
        self,
        parts: Parts,
        *,
        pushes: Callable[[], PushBuilds],
        recorder: RenderRecorder,
        hosts: Mapping[str, SourceHost],
    ) -> None:
        super().__init__(parts.timer, parts.addresses.root, parts.timings.retry)
        self._storage = parts.storage
        self._live_settings = parts.live_settings
        self._renders = parts.addresses.renders
        self._watchers = parts.watchers
        self._pushes = pushes
        self._recorder = recorder
        self._hosts = hosts
        self._fetching: dict[int, int] = {}
        """The organizations of the builds whose sources are fetched now."""

        self._draining = False

    def handle(self, message: _Message) -> None:
        """Start the fetches that wait."""
        match message:
            case PollStorage():
                self._start_waiting()
            case Drain():
                self._draining = True
            case _Fetched(build_id):
                self._fetching.pop(build_id, None)
                self._start_waiting()
            case _:
                assert_never(message)

    def on_task_error(self, task: _Fetch, error: Exception) -> None:
        """Fail the build."""
        super().on_task_error(task, error)
        self._fetching.pop(task.build_id, None)
        self._storage.renders.refuse(task.build_id, BuildErrorCode.INTERNAL_ERROR, f"the service failed: {error}")

    def _start_waiting(self) -> None:
        while not self._draining and len(self._fetching) < _AT_ONCE:
            busy = Counter(self._fetching.values())
            waiting = (each for each in self._storage.renders.to_fetch() if each.build_id not in self._fetching)
            free = (each for each in waiting if busy[each.organization_id] < _OF_ONE and self._has_room(each))
            render = next(free, None)
            if render is None or admission_block(self._storage, self._live_settings.now.pool.low_disk_gb) is not None:
                return
            self._fetching[render.build_id] = render.organization_id
            self._start(render)

    def _has_room(self, render: Render) -> bool:
        return self._storage.build_room.has_source_room(render.organization_id)

    def _start(self, render: Render) -> None:
        def run() -> _Fetched:
            build = self._storage.builds.get(render.build_id)
            if build is not None:
                self._fetch(build, render.ref or "")
            return _Fetched(render.build_id)

        self.work(_Fetch(render.build_id), run)

    def _fetch(self, build: Build, ref: str) -> None:
        """Fetch the source of a build, and let it be rendered; fail the build if there is none."""
        pipeline = self._storage.pipelines.by_id(build.pipeline_id)
        repository = None if pipeline is None else self._storage.repositories.of_pipeline(pipeline)
        try:
            if repository is None:
                raise GitError(_NOT_CONNECTED)
            self._keep(build, repository, self._pushes().source_of(repository, ref))
        except MergeConflicts as error:
            self._recorder.refuse(build, error.code, str(error), b"")
        except (GitError, HostError, RenderFailed) as error:
            self._recorder.refuse(build, BuildErrorCode.RENDER_FAILED, f"source fetch failed: {error}", b"")

    def _keep(self, build: Build, repository: Repository, source: FetchedSource) -> None:
        """Keep the source, and note the commit for which the build is reported to its host."""
        self._storage.sources.store(build.uuid, source.archive)
        with self._storage.transaction():
            goes_on = self._storage.renders.fetched(build.id, source)
            if goes_on and source.ref and build.culprit_search_id is None:  # else the commit has no part in it
                origin = NewOrigin(repository.id, OriginEvent.MANUAL, source.ref, pull_request=source.pull_request)
                reports = self._hosts[repository.provider].reports
                self._storage.build_origins.record(build.id, origin, reports=reports)
        if not goes_on:
            self._storage.sources.remove(build.uuid)  # it was canceled meanwhile
        self._watchers.notify(build.uuid)
        self._renders.post(Reschedule())
