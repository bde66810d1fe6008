"""The daemon with a clock that a test sets: `python -m tests.e2e.clock_offset …` is `ci-daemon …`.

The file named by CLOCK_OFFSET_FILE holds the seconds by which the wall clock is ahead; negative if it is behind.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ci_daemon.command import main
from storage import SystemClock


def _now(_clock: SystemClock) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=float(Path(os.environ["CLOCK_OFFSET_FILE"]).read_text()))


if __name__ == "__main__":
    SystemClock.now = _now  # type: ignore[method-assign, assignment]
    sys.exit(main())
