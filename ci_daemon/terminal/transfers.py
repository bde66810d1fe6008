"""The progress of a transfer of bytes, on a terminal."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["transfer_progress"]


@contextmanager
def transfer_progress(name: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that shows, on a terminal at stderr, how many bytes of a transfer are done."""
    if not sys.stderr.isatty():
        yield lambda _done: None
        return
    # Only on a terminal, because a pipe shows no bar.
    from rich.console import Console  # noqa: PLC0415
    from rich.markup import escape  # noqa: PLC0415
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn  # noqa: PLC0415

    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(escape(name), total=total)
        yield lambda done: progress.update(task, completed=done)
