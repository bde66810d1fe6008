"""A stream that is verified while it is written; its end follows when the verification has succeeded."""

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

    from ci_daemon.backup.verification import Verification


class _VerificationEnded(Exception):
    """The verification has ended before its stream."""


class VerifiedStream:
    """A stream that is copied to an output and to a verification."""

    def __init__(self, out: IO[bytes], reader: FileIO, buffer: IO[bytes], result: Future[Verification]) -> None:
        self._out = out
        self._reader = reader
        self._buffer = buffer
        self._result = result

    def write(self, chunk: bytes) -> int:
        """Write a chunk to both."""
        self._out.write(chunk)
        rest = memoryview(chunk)
        try:
            while rest:
                rest = rest[self._reader.write(rest) :]
        except BrokenPipeError:
            raise _VerificationEnded from None
        return len(chunk)

    @property
    def verification(self) -> Verification:
        """The result, available when the stream has been written to its end."""
        return self._result.result()

    def buffer_rest(self) -> None:
        """Buffer all further output until the verification has succeeded."""
        self._out = self._buffer


@contextmanager
def verified_stream(
    out: IO[bytes], folder: Path, verify: Callable[[IO[bytes]], Verification]
) -> Iterator[VerifiedStream]:
    """Yield a stream that ``verify`` reads in a thread while it goes to ``out``.

    Buffered output is a file in ``folder``. If ``verify`` raises, this does too, and drops that output.
    """
    read, write = os.pipe()
    with TemporaryFile(dir=folder) as buffer, ThreadPoolExecutor(1) as thread:
        result: Future[Verification] = thread.submit(_read_to_end, read, verify)
        try:
            with FileIO(write, "wb") as reader:
                stream = VerifiedStream(out, reader, buffer, result)
                yield stream
        except _VerificationEnded:
            result.result()
            raise
        result.result()
        buffer.seek(0)
        shutil.copyfileobj(buffer, out)


def _read_to_end(descriptor: int, verify: Callable[[IO[bytes]], Verification]) -> Verification:
    with os.fdopen(descriptor, "rb") as written:
        return verify(written)
