"""A `ci-daemon` that notes at its end the CPU time of its threads, by their names.

The environment variable names the file. A thread of a worker has the name of its task for as long as that lasts, so
the clocks of all are read a hundred times a second.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import threading
import time
from collections import defaultdict
from pathlib import Path

from ci_daemon.__main__ import program

FILE_VARIABLE = "BENCHMARK_PROFILE"
_PAUSE_SECONDS = 0.01
_CLOCK_OF_THREAD = 6
_OF_ONE = re.compile(r"[ (-]*(?=\w*\d)[\w-]+\)?|urn:\S+")
"""The part of a name that tells one thread from others of its kind."""


def _sample(seconds: dict[str, float]) -> None:
    """Add the CPU seconds of each kind of thread, for ever."""
    known: dict[int, float] = {}
    while True:
        time.sleep(_PAUSE_SECONDS)
        for thread in threading.enumerate():
            if (number := thread.native_id) is None or thread is threading.current_thread():
                continue
            try:
                now = time.clock_gettime(~number << 3 | _CLOCK_OF_THREAD)
            except OSError:  # it has ended
                continue
            seconds[_OF_ONE.sub("", thread.name)] += now - known.get(number, 0.0)
            known[number] = now


if __name__ == "__main__":
    found: dict[str, float] = defaultdict(float)
    threading.Thread(target=_sample, args=(found,), daemon=True).start()
    atexit.register(lambda: Path(os.environ[FILE_VARIABLE]).write_text(json.dumps(found), encoding="utf-8"))
    program()
