"""The three standard streams, opened and configured for every command."""

from __future__ import annotations

import io
import os
import sys

_STDERR = 2


def prepare_streams() -> None:
    """Open streams that the caller has closed, and escape text that the terminal cannot encode."""
    # The next opened file would get a closed stream's descriptor, and children would write into it.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        os.set_inheritable(descriptor, True)  # noqa: FBT003 - the function has no keywords
    os.close(descriptor)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8")
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
