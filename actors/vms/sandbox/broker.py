"""The former place of ``launcher/broker.py``, where a unit of an earlier release looks for it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    moved = str(Path(__file__).absolute().parents[1] / "launcher" / "broker.py")
    os.execv(sys.executable, [sys.executable, "-I", "-S", moved, *sys.argv[1:]])  # noqa: S606 - the service's own program
