"""Waiting for an event, by looking again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(look: Callable[[], T | None], what: str, seconds: float = 60.0) -> T:
    """Poll until ``look`` returns something true, and return it; fail with ``what`` after ``seconds``.

    Pauses last as long as a look at least: a command takes more of the CPU than what the test waits for.
    """
    deadline = time.monotonic() + seconds
    pause = 0.005
    began = time.monotonic()
    while not (found := look()):
        looked = time.monotonic()
        if looked > deadline:
            raise AssertionError(f"{what}: not within {seconds:g} s")
        time.sleep(max(pause, looked - began))
        pause = min(pause * 1.5, 0.1)
        began = time.monotonic()
    return found
