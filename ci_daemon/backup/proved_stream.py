"""A stream that is proved while it is written; its end follows when the proof has succeeded."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from io import FileIO
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ci_daemon.backup.proving import Proof

__all__ = ["ProvedStream", "proved_stream"]


class _ReaderGone(Exception):
    """The proof has ended before its stream."""


class ProvedStream:
    """A stream that passes everything on to its output and to the proof."""

    def __init__(self, out: IO[bytes], reader: FileIO, kept_back: IO[bytes], verdict: Future[Proof]) -> None:
        self._out = out
        self._reader = reader
        self._kept_back = kept_back
        self._verdict = verdict

    def write(self, block: bytes) -> int:
        """Write a block to both."""
        self._out.write(block)
        rest = memoryview(block)
        try:
            while rest:
                rest = rest[self._reader.write(rest) :]
        except BrokenPipeError:
            raise _ReaderGone from None
        return len(block)

    @property
    def proof(self) -> Proof:
        """The proof, available when the stream has been written to its end."""
        return self._verdict.result()

    def keep_back(self) -> None:
        """Hold back all further output until the proof has succeeded."""
        self._out = self._kept_back


@contextmanager
def proved_stream(out: IO[bytes], folder: Path, prove: Callable[[IO[bytes]], Proof]) -> Iterator[ProvedStream]:
    """Yield a stream that ``prove`` reads in a thread while it goes to ``out``.

    Output that is held back is kept in ``folder``. If ``prove`` raises, this does too, and drops that output.
    """
    read, write = os.pipe()
    with TemporaryFile(dir=folder) as kept_back, ThreadPoolExecutor(1) as thread:
        verdict: Future[Proof] = thread.submit(_read_to_end, read, prove)
        try:
            with FileIO(write, "wb") as reader:
                stream = ProvedStream(out, reader, kept_back, verdict)
                yield stream
        except _ReaderGone:
            verdict.result()
            raise
        verdict.result()
        kept_back.seek(0)
        shutil.copyfileobj(kept_back, out)


def _read_to_end(descriptor: int, prove: Callable[[IO[bytes]], Proof]) -> Proof:
    with os.fdopen(descriptor, "rb") as written:
        return prove(written)
