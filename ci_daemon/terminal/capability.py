"""The terminals on which output can change in place."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO


def can_redraw(stream: TextIO) -> bool:
    """Tell whether a stream is a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM", "") not in {"", "dumb", "unknown"}


def shows_progress() -> bool:
    """Tell whether a person sees progress on stderr.

    Nobody does in a pipe, nor with `--quiet`, whose stdout is no terminal.
    """
    return can_redraw(sys.stderr) and sys.stdout.isatty()
