"""Waiting for an event, by looking again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(look: Callable[[], T | None], what: str, seconds: float = 60.0) -> T:
    """Poll until ``look`` returns something true, and return it; fail with ``what`` after ``seconds``."""
    deadline = time.monotonic() + seconds
    pause = 0.005
    while not (found := look()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds:g} s")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)  # a look may cost more than what it waits for
    return found
