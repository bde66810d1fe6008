"""Names that commands have met, for the completion in shells.

They are the lines of a file that a shell reads by itself: a Tab thus starts no program and asks no server. The lines
are `org/ORG`, `pipeline/ORG/PIPELINE`, `build/ORG/PIPELINE/NUMBER` and `step/ORG/PIPELINE/NUMBER/STEP`, the newest
first.
"""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_MAX_LINES = 1000
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]*")
"""Names that mean themselves in every shell; others come from strangers, and a Tab must not run them."""


def remember(file: Path, lines: Iterable[str]) -> None:
    """Put lines before those that are known. Where nothing can be written, nothing is remembered."""
    met = [line for line in lines if _SAFE.fullmatch(line)]
    with suppress(OSError, UnicodeDecodeError):
        known = file.read_text(encoding="ascii").splitlines() if file.exists() else []
        if {*met} <= {*known}:
            return
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _replace(file, "".join(f"{line}\n" for line in [*dict.fromkeys((*met, *known))][:_MAX_LINES]))


def _replace(file: Path, text: str) -> None:
    """Replace a file at once, so that a shell never reads half of it."""
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as opened:
            opened.write(text)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
