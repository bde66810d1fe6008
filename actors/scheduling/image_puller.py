"""The image puller: pulls an image once for all jobs that wait for it, in tries (engine.md, "Images")."""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, assert_never

from actors.messages import ImageFailed, ImagePullerMessage, ImagesAwaited, PollStorage, Reschedule
from actors.supervision import Supervised
from actors.vms import ImageNotFound, InsufficientDisk, VmError, login_of, public_name
from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from actors.log_watchers import LogWatchers
    from actors.parts import VmParts
    from actors.vms import Images
    from storage import AwaitingJob, Clock, RegistryAccount, Storage


_FIRST_PAUSE = 2.0
_MAX_PAUSE = 60.0
_MAX_LINE = 200
_GB = 2**30
_MAX_PULLS = 4
_FAILURE_SECONDS = 30.0
_QUEUED = "other images are pulled first"


class NotAwaited(Exception):
    """No job waits for the image any more."""


class ImagePull:
    """One pull, which reports its progress in the logs of the waiting jobs, less and less often.

    `run` is for the thread that pulls; `note_new_jobs` and `end` are for other threads.
    """

    def __init__(
        self,
        *,
        image: str,
        storage: Storage,
        images: Images,
        clock: Clock,
        keep_free: int,
        make_room: Callable[[int], None],
        progress: dict[str, str],
        watchers: LogWatchers,
    ) -> None:
        self._image = image
        self._name = public_name(image)
        self._storage = storage
        self._images = images
        self._clock = clock
        self._keep_free = keep_free
        self._make_room = make_room
        self._progress = progress
        self._watchers = watchers
        self._ended = threading.Event()
        self._has_new_jobs = threading.Event()
        self._informed: set[int] = set()
        self._line = self._logged = ""
        self._due = float("-inf")
        self._pause = _FIRST_PAUSE

    def end(self) -> None:
        """Make `run` raise soon, and leave nothing in the store."""
        self._ended.set()

    def note_new_jobs(self) -> None:
        """Report the progress to the jobs that have begun to wait since."""
        self._has_new_jobs.set()

    def run(self) -> None:
        """Pull the image. Raises VmError, whose message says what to do, and NotAwaited after `end`."""
        self._report(f'the image "{self._name}" is not on this host yet: it is pulled first')
        self._check()
        try:
            fetch = partial(
                self._images.fetch,
                self._image,
                keep_free=self._keep_free,
                progress=self._report,
                check=self._check,
                login=self._login(),
            )
            try:
                fetch()
            except InsufficientDisk as error:
                self._make_room(error.lacking)
                fetch()
        except VmError as error:
            self._log_to(str(error), self._jobs())
            raise
        self._log_to(f'the image "{self._name}" is here', self._jobs())

    def _login(self) -> RegistryAccount | None:
        """Return the login of an image that is pulled with one. Raises ImageNotFound if it was removed."""
        uuid = login_of(self._image)
        account = None if uuid is None else self._storage.registry_logins.opened(uuid)
        if uuid is not None and account is None:
            raise ImageNotFound(f"{self._name} was not pulled: the organization's login at its registry was removed")
        return account

    def _report(self, line: str) -> None:
        self._line = "".join(filter(str.isprintable, line))[:_MAX_LINE]
        self._progress[self._image] = self._line

    def _check(self) -> None:
        if self._ended.is_set():
            raise NotAwaited
        now = self._clock.monotonic()
        if self._line != self._logged and now >= self._due:
            self._due, self._pause = now + self._pause, min(2 * self._pause, _MAX_PAUSE)
            self._logged = self._line
            self._log_to(self._line, self._jobs())
        elif self._has_new_jobs.is_set():
            self._has_new_jobs.clear()
            line = f'the image "{self._name}" is being pulled already: {self._line}'
            self._log_to(line, [job for job in self._jobs() if job.job_id not in self._informed])

    def _jobs(self) -> list[AwaitingJob]:
        return self._storage.queue.awaiting(self._image)

    def _log_to(self, line: str, jobs: Iterable[AwaitingJob]) -> None:
        """Write a line into the logs of jobs; a log that cannot be written is skipped."""
        for job in jobs:
            self._informed.add(job.job_id)
            with suppress(OSError), self._storage.logs.writer(job.build_uuid, job.uuid, job.attempt) as log:
                log.notice(line)
            self._watchers.notify(job.uuid)


@immutable
class _Failure:
    """The reason of a failed pull, which is not repeated before ``until`` (monotonic seconds)."""

    why: str
    until: float


@immutable
class _PullImage:
    """Task: pull an image."""

    image: str

    def __str__(self) -> str:
        return f"pull {self.image}"


@immutable
class _Pulled:
    """Worker: the image is in the store."""

    image: str


class ImagePuller(Supervised[ImagePullerMessage | _Pulled, _PullImage]):
    """Pulls the images that jobs wait for into the store, each once, and a few at a time.

    The waiting jobs are in the storage (`Queue.await_image`), so that a successor goes on with them. A failure is
    remembered for a while, so that many jobs with an image that cannot be pulled cause only one attempt.
    """

    def __init__(self, parts: VmParts, *, make_room: Callable[[int], None]) -> None:
        super().__init__(parts.timer, parts.addresses.root, parts.timings.retry)
        self._root = parts.addresses.root
        self._pool = parts.addresses.pool
        self._storage = parts.storage
        self._images = parts.images
        self._clock = parts.clock
        self._live_settings = parts.live_settings
        self._make_room = make_room
        self._progress = parts.reasons.pulls
        self._watchers = parts.watchers
        self._metrics = parts.metrics
        self._pulls: dict[str, ImagePull] = {}
        self._queued: dict[str, None] = {}
        self._failures: dict[str, _Failure] = {}

    def begin(self) -> None:
        """Start the pulls that jobs already wait for."""
        self._progress.clear()
        self._start_pulls()

    def teardown(self) -> None:
        """End all pulls and remove what they have so far."""
        for pull in self._pulls.values():
            pull.end()

    def handle(self, message: ImagePullerMessage | _Pulled) -> None:
        """Start pulls, end those that no job waits for any more, and queue the jobs again."""
        match message:
            case ImagesAwaited():
                self._start_pulls()
                for pull in self._pulls.values():
                    pull.note_new_jobs()
            case PollStorage():
                for image, pull in self._pulls.items():
                    if not self._storage.queue.is_awaited(image):
                        pull.end()
            case _Pulled(image):
                self._forget(image)
                self._metrics.image(pulled=True)
                self._storage.queue.end_await(image)
                self._pool.post(Reschedule())
                self._start_pulls()
            case _:
                assert_never(message)

    def on_task_error(self, task: _PullImage, error: Exception) -> None:
        """Remember why an image cannot be pulled, and tell its jobs, unless none waits for it any more."""
        self._forget(task.image)
        if not isinstance(error, NotAwaited):
            self.log.warning("cannot pull the image %s: %s", task.image, error)
            self._metrics.image(pulled=False)
            until = self._clock.monotonic() + _FAILURE_SECONDS
            self._failures[task.image] = _Failure(str(error), until)
        self._start_pulls()

    def _pull(self, image: str) -> None:
        """Pull an image on a worker thread."""
        pull = self._pulls[image] = ImagePull(
            image=image,
            storage=self._storage,
            images=self._images,
            clock=self._clock,
            keep_free=int(self._live_settings.now.pool.low_disk_gb * _GB),
            make_room=self._make_room,
            progress=self._progress,
            watchers=self._watchers,
        )

        def run() -> _Pulled:
            pull.run()
            return _Pulled(image)

        self.work(_PullImage(image), run)

    def _forget(self, image: str) -> None:
        self._pulls.pop(image, None)
        self._progress.pop(image, None)

    def _start_pulls(self) -> None:
        """Start as many pulls as may run at once, in the order of the requests."""
        now, awaited = self._clock.monotonic(), self._storage.queue.awaited_images()
        self._failures = {image: each for image, each in self._failures.items() if each.until > now}
        for image in awaited:
            if image in self._failures:
                self._refuse(image, self._failures[image].why)
            elif image not in self._pulls:
                self._queued.setdefault(image)
                self._progress[image] = _QUEUED
        for image in list(self._queued):
            if len(self._pulls) == _MAX_PULLS:
                return
            del self._queued[image]
            self._progress.pop(image, None)
            if image in awaited:
                self._pull(image)

    def _refuse(self, image: str, why: str) -> None:
        for job in self._storage.queue.awaiting(image):
            self._root.post(ImageFailed(job.build_id, job.job_id, why))
