"""Run the loader, bound its time and its output, and report; runs in the VM, as the loader's parent.

On stdin it takes a line of JSON, and then the DSL as a zip archive. The line has ``loader`` (its text), ``env``,
``folder``, ``seconds``, and how much to keep of each stream: ``log_bytes``, ``stderr_bytes`` and ``result_bytes``.
On stdout it gives one JSON object: ``exit_code`` (null if time ran out), and the beginnings of ``result``, ``stderr``
and ``log`` in base64. A result that is too long has one byte more than ``result_bytes``.
"""

from __future__ import annotations

import base64
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time

_CHUNK_BYTES = 1 << 16
_DRAIN_SECONDS = 1.0


def main() -> None:
    """Run the loader as stdin asks, and print the report."""
    options = json.loads(sys.stdin.buffer.readline())
    archive = os.path.join(tempfile.mkdtemp(), "dsl.zip")  # noqa: PTH118 - saves an import
    with open(archive, "wb") as file:  # noqa: PTH123 - saves an import
        file.write(sys.stdin.buffer.read())
    result, theirs = os.pipe()
    process = subprocess.Popen(
        # Unbuffered, so that the log shows output before the error that followed it.
        [sys.executable, "-I", "-u", "-c", options["loader"], archive, str(theirs)],
        cwd=options["folder"],
        env=options["env"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=(theirs,),
        start_new_session=True,
    )
    os.close(theirs)
    assert process.stdout is not None and process.stderr is not None  # noqa: S101, PT018 - they are pipes
    log = _StreamHead(options["log_bytes"])
    errors = _StreamHead(options["stderr_bytes"])
    envelope = _StreamHead(options["result_bytes"] + 1)
    exit_code = _follow(
        process,
        {process.stdout.fileno(): (log,), process.stderr.fileno(): (log, errors), result: (envelope,)},
        time.monotonic() + options["seconds"],
    )
    report = {
        "exit_code": exit_code,
        **{
            name: base64.b64encode(head.data).decode()
            for name, head in (("result", envelope), ("stderr", errors), ("log", log))
        },
    }
    sys.stdout.write(json.dumps(report))


class _StreamHead:
    """The beginning of a stream."""

    def __init__(self, limit: int) -> None:
        self.data = bytearray()
        self._limit = limit

    def take(self, chunk: bytes) -> None:
        self.data += chunk[: self._limit - len(self.data)]


def _follow(
    process: subprocess.Popen[bytes], readers: dict[int, tuple[_StreamHead, ...]], deadline: float
) -> int | None:
    """Read all streams until the loader has ended and a moment longer; return its exit code.

    The loader's children may hold the streams open, so their end is not waited for. None if time ran out.
    """
    with selectors.DefaultSelector() as selector:
        for descriptor in readers:
            os.set_blocking(descriptor, False)
            selector.register(descriptor, selectors.EVENT_READ)
        until = deadline
        exit_code = None
        while selector.get_map() and time.monotonic() < until:
            for key, _ in selector.select(0.05):
                chunk = os.read(key.fd, _CHUNK_BYTES)
                for head in readers[key.fd]:
                    head.take(chunk)
                if not chunk:
                    selector.unregister(key.fd)
            if exit_code is None and (exit_code := process.poll()) is not None:
                until = min(deadline, time.monotonic() + _DRAIN_SECONDS)
    if exit_code is None:
        try:
            exit_code = process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None
    return exit_code if exit_code >= 0 else 128 - exit_code


if __name__ == "__main__":
    main()
