"""A program on a terminal of 24 lines and 80 columns."""

from __future__ import annotations

import os
import pty
import subprocess
import sys


def shown(program: str, *, stdout: int | None = None, **environment: str) -> str:
    """Return what a Python program writes to a terminal; its stdout may be elsewhere."""
    ours, theirs = pty.openpty()
    variables = {"PATH": os.environ["PATH"], "TERM": "xterm", "LINES": "24", "COLUMNS": "80", **environment}
    out = theirs if stdout is None else stdout
    process = subprocess.Popen([sys.executable, "-c", program], stdin=theirs, stdout=out, stderr=theirs, env=variables)
    os.close(theirs)
    text = b""
    try:
        while chunk := os.read(ours, 10_000):
            text += chunk
    except OSError:  # the end of a terminal, on Linux
        pass
    finally:
        os.close(ours)
        assert process.wait(30) == 0
    return text.decode()
