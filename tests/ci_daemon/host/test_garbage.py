"""The collector's work in the service."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from ci_daemon.command.operation.serve import set_imports_aside


@pytest.fixture
def collector() -> Iterator[None]:
    """A collector that the test may change, without what a service of an earlier test has set."""
    callbacks = list(gc.callbacks)
    gc.callbacks.clear()
    yield
    gc.callbacks[:] = callbacks
    gc.unfreeze()


@pytest.mark.usefixtures("collector")
def test_later_imports_are_set_aside_once_garbage_is_collected(monkeypatch: pytest.MonkeyPatch):
    set_imports_aside()
    first = gc.get_freeze_count()
    kept = [[] for _ in range(1000)]  # type: list[list[int]]
    gc.collect()
    assert gc.get_freeze_count() <= first  # nothing was imported
    monkeypatch.setitem(sys.modules, "imported_later", ModuleType("imported_later"))
    gc.collect(1)
    assert gc.get_freeze_count() <= first
    gc.collect()
    assert gc.get_freeze_count() >= first + len(kept)
