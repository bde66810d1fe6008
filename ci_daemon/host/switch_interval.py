"""The interpreter's switch interval: short, and longer the more threads the service has.

A request gives up the interpreter at each query and system call, and while another thread computes it waits for an
interval each time: at Python's 5 ms a health check would take 20 beside a page that takes long.

A thread that waits for the interpreter asks for it once in an interval. Thousands of running jobs have thousands of
threads, and at 5 ms their asking alone would take all of the CPU.
"""

from __future__ import annotations

import sys
import threading

_SHORTEST_SECONDS = 0.001
_SECONDS_PER_THREAD = 20e-6


def adapt_switch_interval() -> None:
    """Set the interval for the threads that there are now."""
    sys.setswitchinterval(switch_interval(threading.active_count()))


def switch_interval(threads: int) -> float:
    """Return the seconds for so many threads: at most 50,000 wake-ups a second of all together."""
    return max(_SHORTEST_SECONDS, threads * _SECONDS_PER_THREAD)
