"""Changes of a watched tree."""

from __future__ import annotations

import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import watchfiles

from ci_daemon.local import BuildInterrupts, TreeChanges
from tests.waiting import until


@pytest.fixture
def changes(tmp_path: Path) -> Iterator[TreeChanges]:
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "main.c").write_text("int x;\n")
    with TreeChanges(tmp_path) as changes:
        changes.pack()
        yield changes


def test_a_changed_file_ends_the_wait_and_is_told(changes: TreeChanges, tmp_path: Path):
    told = threading.Event()
    with changes.telling(told.set):
        (tmp_path / "main.c").write_text("int y;\n")
        changes.wait()
        assert told.wait(10)


def test_a_change_before_the_watch_begins_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    changed, watch = threading.Event(), watchfiles.watch

    def late(*arguments: Any, **options: Any) -> Iterator[object]:
        changed.wait()
        yield from watch(*arguments, **options)

    monkeypatch.setattr(watchfiles, "watch", late)
    (tmp_path / "main.c").write_text("int x;\n")
    told = threading.Event()
    with TreeChanges(tmp_path) as changes, changes.telling(told.set):
        changes.pack()
        (tmp_path / "main.c").write_text("int y;\n")
        changed.set()
        assert told.wait(10)


def test_a_change_before_anybody_is_told_is_told_at_once(changes: TreeChanges, tmp_path: Path):
    """Such as a second save while the build of the first is made."""
    (tmp_path / "main.c").write_text("int y;\n")
    changes.wait()
    told = threading.Event()
    with changes.telling(told.set):
        assert told.is_set()
    changes.pack()
    again = threading.Event()
    with changes.telling(again.set):
        assert not again.is_set()


def test_ignored_files_and_files_as_they_were_change_nothing(changes: TreeChanges, tmp_path: Path):
    (tmp_path / "out.log").write_text("noise\n")
    (tmp_path / "main.c").write_text("int x;\n")
    (tmp_path / ".git").mkdir()
    assert not changes.differs()
    (tmp_path / "other.c").write_text("int z;\n")
    assert changes.differs()


def test_a_tree_that_cannot_be_packed_differs(changes: TreeChanges, tmp_path: Path):
    (tmp_path / "link").symlink_to("/etc/passwd")
    assert changes.differs()


def test_what_is_packed_again_has_not_changed(changes: TreeChanges, tmp_path: Path):
    (tmp_path / "main.c").write_text("int y;\n")
    changes.wait()
    changes.pack()
    assert not changes.differs()
    (tmp_path / "new.c").write_text("int z;\n")
    changes.wait()


def test_a_signal_that_wakes_no_wait_ends_it_all_the_same(changes: TreeChanges):
    """Another thread takes it, so that it is as one that comes just before the wait begins."""
    main = threading.get_ident()

    def waits() -> bool:
        codes = [frame.f_code for frame, _ in traceback.walk_stack(sys._current_frames()[main])]  # noqa: SLF001 - no other way
        return codes[0] is threading.Condition.wait.__code__ and TreeChanges.wait.__code__ in codes

    def interrupt() -> None:
        until(waits, "the wait")
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    sender = threading.Thread(target=interrupt)
    with BuildInterrupts().handled():
        sender.start()
        with pytest.raises(KeyboardInterrupt):
            changes.wait()
    sender.join()
