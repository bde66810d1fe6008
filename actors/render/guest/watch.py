"""Run the loader, bound its time and its output, and report; runs in the VM, as the loader's parent.

Stdin is the DSL as a zip archive, then lines: ``fetch ARGUMENTS`` for the fetcher, answered with ``fetched`` if it
succeeds, and ``load ARGUMENTS`` for the loader once the repository is there, which may be long after. Then it reports
on stdout: a line of the exit code (-1 if time ran out) and the sizes of ``result``, ``stderr`` and ``log``, then the
beginnings of these, one after the other. A result that is too long has one byte more than its limit. Only modules
inside of Python are imported, to start soon. The service adds the call of ``main``.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal.py imports more than all of this
import io
import os
import select
import sys
import time

_CHUNK_BYTES = 1 << 16
_DRAIN_SECONDS = 1.0
_POLL_SECONDS = 0.05
_FETCH = b"fetch "
_DSL_FOLDER = "/run/ci-daemon-dsl"
_DSL = f"{_DSL_FOLDER}/dsl.zip"


def main(
    fetcher: str,
    loader: str,
    dsl_bytes: int,
    folder: str,
    seconds: float,
    limits: tuple[int, int, int],
) -> None:
    """Run the text of a loader in a folder, that of a fetcher on request, and print the report."""
    os.mkdir(_DSL_FOLDER)  # noqa: PTH102 - saves an import
    with open(_DSL, "wb") as file:  # noqa: PTH123 - saves an import
        while file.tell() < dsl_bytes:
            file.write(os.read(0, min(dsl_bytes - file.tell(), _CHUNK_BYTES)) or sys.exit(1))
    pipes = [os.pipe() for _ in range(3)]
    awaited, there = os.pipe()
    process = os.fork()
    if process == 0:
        _become_loader(folder, [write for _, write in pipes], awaited)
        _execute(loader, "<loader>")
        return
    while (word := os.read(0, len(_FETCH))) == _FETCH:
        fetching = os.fork()
        if fetching == 0:
            os.chdir(folder)
            _execute(fetcher, "<fetcher>")
            return
        if status := os.waitpid(fetching, 0)[1]:
            sys.exit(_exit_code(status))
        os.write(1, b"fetched\n")
    while not word.endswith(b"\n"):
        word += os.read(0, _CHUNK_BYTES) or sys.exit(1)
    os.write(there, word)
    for each in (*(write for _, write in pipes), awaited, there):
        os.close(each)
    result_bytes, stderr_bytes, log_bytes = limits
    result, errors, log = _StreamHead(result_bytes + 1), _StreamHead(stderr_bytes), _StreamHead(log_bytes)
    # The output is read before the errors: what was written at once is mostly output, and then the error that ended it.
    readers = dict(zip((read for read, _ in pipes), ((result,), (log,), (log, errors)), strict=True))
    exit_code = _follow(process, readers, time.monotonic() + seconds)
    heads = [bytes(each.data) for each in (result, errors, log)]
    sys.stdout.buffer.write(" ".join(map(str, (exit_code, *map(len, heads)))).encode() + b"\n" + b"".join(heads))


class _StreamHead:
    """The beginning of a stream."""

    def __init__(self, limit: int) -> None:
        self.data = bytearray()
        self._limit = limit

    def take(self, chunk: bytes) -> None:
        self.data += chunk[: self._limit - len(self.data)]


def _execute(program: str, name: str) -> None:
    exec(compile(program, name, "exec"), {"__name__": "__main__"})  # noqa: S102 - the very point


def _become_loader(folder: str, streams: list[int], awaited: int) -> None:
    """Make this fork what ``python3 -I -u -c LOADER`` would be, which takes longer to start."""
    os.setsid()
    os.chdir(folder)
    result, log, errors = streams
    for number, descriptor in enumerate((os.open("/dev/null", os.O_RDONLY), log, errors)):
        os.dup2(descriptor, number)
    os.set_inheritable(result, True)  # noqa: FBT003 - the function's own argument
    os.closerange(3, result)
    os.closerange(result + 1, awaited)
    os.closerange(awaited + 1, os.sysconf("SC_OPEN_MAX"))
    # Unbuffered, so that the log shows output before the error that followed it.
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w"), write_through=True)
    sys.argv[1:] = [_DSL, str(result), str(awaited)]
    import site  # noqa: PLC0415 - only the loader needs it

    site.main()


def _follow(process: int, readers: dict[int, tuple[_StreamHead, ...]], deadline: float) -> int:
    """Read all streams until the loader has ended and a moment longer; return its exit code.

    The loader's children may hold the streams open, so their end is not waited for. -1 if time ran out.
    """
    poll = select.poll()
    for descriptor in readers:
        poll.register(descriptor, select.POLLIN)
    opened, until, exit_code = len(readers), deadline, -1
    while opened and time.monotonic() < until:
        for descriptor, _ in poll.poll(_POLL_SECONDS * 1000):
            chunk = os.read(descriptor, _CHUNK_BYTES)
            for head in readers[descriptor]:
                head.take(chunk)
            if not chunk:
                poll.unregister(descriptor)
                opened -= 1
        if exit_code < 0 and (exit_code := _ended(process)) >= 0:
            until = min(deadline, time.monotonic() + _DRAIN_SECONDS)
    if exit_code < 0:
        ended = select.poll()
        ended.register(os.pidfd_open(process), select.POLLIN)
        ended.poll(max(0.0, deadline - time.monotonic()) * 1000)
        exit_code = _ended(process)
    if exit_code < 0:
        os.killpg(process, _signal.SIGKILL)
    return exit_code


def _ended(process: int) -> int:
    """Return the exit code of a child, -1 while it runs; a signal N is 128 + N."""
    pid, status = os.waitpid(process, os.WNOHANG)
    return _exit_code(status) if pid else -1


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code
