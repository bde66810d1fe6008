from __future__ import annotations

import threading

import pytest

from actors.log_watchers import LogWatchers


@pytest.fixture
def watchers() -> LogWatchers:
    return LogWatchers()


def test_a_change_wakes_every_reader_of_the_job(watchers: LogWatchers):
    with watchers.watch("a") as one, watchers.watch("a") as other:
        watchers.notify("a")
        assert one.wait(0)
        assert other.wait(0)


def test_a_change_between_the_read_and_the_wait_is_not_missed(watchers: LogWatchers):
    with watchers.watch("a") as watch:
        watchers.notify("a")
        watchers.notify("a")
        assert watch.wait(0)


def test_a_change_wakes_a_reader_in_another_thread(watchers: LogWatchers):
    ended = []
    with watchers.watch("a") as watch:
        reader = threading.Thread(target=lambda: ended.append(watch.wait(30)))
        reader.start()
        watchers.notify("a")
        reader.join()
    assert ended == [True]


def test_changes_of_other_jobs_wake_no_watcher(watchers: LogWatchers):
    with watchers.watch("a") as watch:
        watchers.notify("b")
        assert not watch.wait(0)


def test_one_change_ends_one_wait(watchers: LogWatchers):
    with watchers.watch("a") as watch:
        watchers.notify("a")
        assert watch.wait(0)
        assert not watch.wait(0)


class ChangingLog(LogWatchers):
    """The watchers of a log that changes just after each wait for it has timed out."""

    def add(self, uuid: str, changed: threading.Event) -> None:
        super().add(uuid, changed)
        wait = changed.wait

        def wait_and_change(timeout: float | None = None) -> bool:
            woken = wait(timeout)
            self.notify(uuid)
            return woken

        changed.wait = wait_and_change  # type: ignore[method-assign]


def test_a_change_just_as_a_wait_ends_is_left_for_the_next():
    with ChangingLog().watch("a") as watch:
        assert not watch.wait(0)
        assert watch.wait(0)


def test_readers_that_left_are_forgotten(watchers: LogWatchers):
    with watchers.watch("a"), watchers.watch("b"):
        assert len(watchers) == 2
    assert len(watchers) == 0
