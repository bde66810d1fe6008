"""Programs that end with the test that starts them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import AnyStr

_SERVE = """
import sys
from pathlib import Path
from ci_daemon.host.lock import serving

with serving(Path(sys.argv[1])) as lock:
    lock.record_url(sys.argv[2])
    print("serving", flush=True)
    sys.stdin.read()
"""


@contextmanager
def ended(process: subprocess.Popen[AnyStr]) -> Iterator[subprocess.Popen[AnyStr]]:
    """Kill a process that the block leaves running, as one that fails does, and wait for its end."""
    with process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def serving_at(state: Path, url: str) -> Iterator[None]:
    """Hold the lock of a state directory, as a service does that answers at a URL."""
    command = (sys.executable, "-c", _SERVE, str(state), url)
    with ended(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)) as service:
        assert service.stdout is not None
        assert service.stdout.readline() == "serving\n"
        yield
