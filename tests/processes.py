"""Programs that end with the test that starts them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import AnyStr


@contextmanager
def ended(process: subprocess.Popen[AnyStr]) -> Iterator[subprocess.Popen[AnyStr]]:
    """Kill a process that the block leaves running, as one that fails does, and wait for its end."""
    with process:
        try:
            yield process
        finally:
            process.kill()
