"""The repository watcher: looks for pushes to repositories (wire-decisions.md, "Source hosts")."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, assert_never

from actors.messages import PollStorage, RepositoryWatcherMessage
from actors.render.envelope import RenderFailed
from actors.repositories import MIRRORS
from actors.repositories.fetching.remote import GitError
from actors.scheduling.pending_reason import admission_block
from actors.source_hosts.host import HostError
from actors.supervision import Supervised
from actors.vms import VmError
from storage import TooManyBuilds, immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actors.parts import Parts
    from actors.repositories.pushes import PushBuilds
    from actors.source_hosts.host import SourceHost
    from storage import Repository

_AT_ONCE = 6
_OF_ONE = 2
_SWEEP_SECONDS = 60.0
_REST_SECONDS = 0.25
_INTERNAL_ERROR = "an internal error, see `ci-daemon logs`"


@immutable
class _Check:
    """Work on a worker thread: check one repository."""

    repository: Repository

    def __str__(self) -> str:
        return f"check {self.repository.url}"


@immutable
class _Sweep:
    """Timer, and work on a worker thread: delete the mirrors of repositories that are gone."""

    def __str__(self) -> str:
        return "delete mirrors"


@immutable
class _Handle:
    """Work on a worker thread: process the deliveries of a host that have no repository."""

    provider: str

    def __str__(self) -> str:
        return f"process the deliveries of {self.provider}"


@immutable
class _Checked:
    """Worker: the check of this repository has ended; ``moved`` tells whether there was a push."""

    repository_id: int
    moved: bool


@immutable
class _Rested:
    """Timer: this repository may be checked again."""

    repository_id: int


@immutable
class _Handled:
    """Worker: no delivery of this host without a repository is due."""

    provider: str


_Message: TypeAlias = RepositoryWatcherMessage | _Checked | _Rested | _Handled | _Sweep
_Task: TypeAlias = _Check | _Sweep | _Handle


class RepositoryWatcher(Supervised[_Message, _Task]):
    """Checks each repository when it is due, six at once, and none twice at a time.

    Organizations take turns, and none has more than two checks at once: so slow repositories or huge commits of one
    delay no pushes of others.

    After a check that finds no push, a repository rests for a moment. So many deliveries that say the same, or nothing
    new, cost a few checks a second, and a push that follows another is built at once.

    All of them are due at the start, so that pushes during downtime are found; so are the connected accounts.
    """

    def __init__(self, parts: Parts, *, pushes: Callable[[], PushBuilds], hosts: Mapping[str, SourceHost]) -> None:
        super().__init__(parts.timer, parts.addresses.root, parts.timings.retry)
        self._storage = parts.storage
        self._live_settings = parts.live_settings
        self._pushes = pushes
        self._hosts = hosts
        self._checking: dict[int, int] = {}
        """The organizations of the repositories that are checked now."""

        self._turns: dict[int, int] = {}
        """The numbers of the last checks of organizations, by their order."""

        self._started = 0
        self._queues: dict[int, frozenset[tuple[object, ...]]] = {}
        """The progress of the merge queues as their repositories were checked last."""

        self._resting: set[int] = set()
        self._handling: set[str] = set()

    def begin(self) -> None:
        """Make every repository due, reconcile the hosts, and delete the mirrors of others."""
        self._storage.repository_checks.hasten_all()
        for provider in self._hosts:
            if self._storage.host_connections.of_provider(provider):  # no other host is imported
                self._hosts[provider].reconcile()
        self.address.post(_Sweep())

    def handle(self, message: _Message) -> None:
        """Start the checks that are due, while VMs are granted: a push is rendered in one."""
        match message:
            case PollStorage():
                self._poll_hosts()
                self._poll_queues()
                self._poll()
            case _Handled(provider):
                self._handling.discard(provider)
            case _Checked(repository_id, moved):
                self._checking.pop(repository_id, None)
                if not moved:
                    self._resting.add(repository_id)
                    self._timer.tell_after(_REST_SECONDS, self.address, _Rested(repository_id))
                self._poll()
            case _Rested(repository_id):
                self._resting.discard(repository_id)
                self._poll()
            case _Sweep():
                if (self._storage.directory / MIRRORS).exists():
                    self.work(message, lambda: self._pushes().remove_orphans())
                self._timer.tell_after(_SWEEP_SECONDS, self.address, message)
            case _:
                assert_never(message)

    def on_task_error(self, task: _Task, error: Exception) -> None:
        """Log the error; the repository is checked, or the delivery processed, again after a pause."""
        super().on_task_error(task, error)
        match task:
            case _Check(repository):
                self._checking.pop(repository.id, None)
                self._storage.repository_checks.failed(repository, _INTERNAL_ERROR)
            case _Handle(provider):
                self._handling.discard(provider)
                delivery = self._storage.deliveries.next_unassigned(provider)
                if delivery is not None:
                    self._storage.deliveries.postpone(delivery, _INTERNAL_ERROR)
            case _Sweep():
                pass
            case _:
                assert_never(task)

    def _poll_hosts(self) -> None:
        for provider in self._hosts.keys() - self._handling:
            if self._storage.deliveries.next_unassigned(provider) is not None:
                self._handling.add(provider)
                self.work(_Handle(provider), partial(self._handle_deliveries, provider))

    def _handle_deliveries(self, provider: str) -> _Handled:
        deliveries = self._storage.deliveries
        while (delivery := deliveries.next_unassigned(provider)) is not None:
            try:
                self._hosts[provider].handle(delivery)
            except HostError as error:
                self.log.warning("the delivery %s of %s failed: %s", delivery.uuid, provider, error)
                deliveries.postpone(delivery, str(error))
            else:
                deliveries.handled(delivery)
        return _Handled(provider)

    def _poll_queues(self) -> None:
        """Let repositories be checked whose merge queues may go on."""
        now = self._storage.merge_queues.progress()
        for repository_id in now.keys() | self._queues.keys():
            if repository_id not in self._checking and now.get(repository_id) != self._queues.get(repository_id):
                self._storage.repository_checks.hasten(repository_id)

    def _note_queue(self, repository_id: int) -> None:
        """Note the progress that a check begins with; what changes from now on begins another."""
        found = self._storage.merge_queues.progress().get(repository_id)
        if found is None:
            self._queues.pop(repository_id, None)
        else:
            self._queues[repository_id] = found

    def _poll(self) -> None:
        while len(self._checking) < _AT_ONCE:
            repository = self._next()
            if repository is None or self._is_blocked():
                return
            self._started += 1
            self._checking[repository.id] = repository.organization_id
            self._turns[repository.organization_id] = self._started
            self._note_queue(repository.id)
            self._start(repository)

    def _is_blocked(self) -> bool:
        return admission_block(self._storage, self._live_settings.now.pool.low_disk_gb) is not None

    def _next(self) -> Repository | None:
        """Return a repository that is due, if there is one.

        It is of the organization with the fewest checks, of several the one whose last is longest ago.
        """
        running = Counter(self._checking.values())
        waiting = self._storage.repository_checks.next_of_each(self._checking.keys() | self._resting)
        free = [each for each in waiting if running[each.organization_id] < _OF_ONE]
        return min(
            free,
            key=lambda each: (running[each.organization_id], self._turns.get(each.organization_id, 0)),
            default=None,
        )

    def _start(self, repository: Repository) -> None:
        def run() -> _Checked:
            moved = False
            try:
                moved = self._pushes().check(repository)
            except TooManyBuilds as error:
                self.log.warning("pushes of %s wait: %s", repository.url, error)
                self._storage.repository_checks.put_off(repository, str(error))
                self._storage.deliveries.failed(repository.id, str(error))
            except (GitError, HostError, VmError, RenderFailed) as error:
                self.log.warning("%s cannot be checked: %s", repository.url, error)
                self._storage.repository_checks.failed(repository, str(error))
                self._storage.deliveries.failed(repository.id, str(error))
            self._pushes().announce(repository)
            return _Checked(repository.id, moved)

        self.work(_Check(repository), run)
