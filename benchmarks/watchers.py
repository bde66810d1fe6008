"""People who watch a build in their browsers, as far as the service sees them."""

from __future__ import annotations

import json
import os
import selectors
import socket
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.service import Service

_JOBS = 12
_ARRIVAL_SECONDS = 15
_POLL_SECONDS = 0.1
_SECONDS = 120.0
_CHUNK_BYTES = 1 << 16
_TICKS = os.sysconf("SC_CLK_TCK")


def core_share(service: Service, cookie: str, watchers: int) -> float:
    """Run a build that so many people watch; return the share of a core that the service uses meanwhile.

    Its first job gives them the time to open the page; what is measured begins after that job.
    """
    commands = [f"sleep {_ARRIVAL_SECONDS}", *["sleep 1"] * _JOBS]
    nodes = [{"step": {"key": f"job-{number}", "cmd": each}, "env": {}} for number, each in enumerate(commands)]
    edges = [[0, number, "depends_on"] for number in range(1, len(nodes))]
    build = service.build(json.dumps({"version": "0", "graph": {"nodes": nodes, "edges": edges}}))
    page = build.removeprefix("/api/v0/organizations")
    ended = threading.Event()
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for _ in range(watchers):
            selector.register(stack.enter_context(_stream(service, page, cookie)), selectors.EVENT_READ)
        reader = threading.Thread(target=_read, args=(selector, ended))
        reader.start()
        try:
            _wait_for_first_job(service, build)
            before, started = _cpu_seconds(service.daemon.pid), time.perf_counter()
            service.finish(build, _SECONDS)
            share = (_cpu_seconds(service.daemon.pid) - before) / (time.perf_counter() - started)
        finally:
            ended.set()
            reader.join()
    return share


def _wait_for_first_job(service: Service, build: str) -> None:
    """Wait for the end of the first job. Raises RuntimeError if it has ended already."""
    if _first_job_ended(service, build):
        raise RuntimeError(f"those who watch {build} needed more than {_ARRIVAL_SECONDS} s to open its page")
    while not _first_job_ended(service, build):
        time.sleep(_POLL_SECONDS)


def _first_job_ended(service: Service, build: str) -> bool:
    return bool(service.get(f"{build}/jobs")["data"][0]["finished_at"])


def _stream(service: Service, page: str, cookie: str) -> socket.socket:
    """Follow a page's events; return the connection when they have begun. Raises RuntimeError."""
    host, _, port = service.daemon.url.removeprefix("http://").rpartition(":")
    stream = socket.create_connection((host, int(port)))
    stream.sendall(f"GET {page}/live HTTP/1.1\r\nHost: {host}:{port}\r\nCookie: {cookie}\r\n\r\n".encode())
    answer = stream.recv(_CHUNK_BYTES)
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise RuntimeError(f"{page}: {answer[:200]!r}")
    return stream


def _read(selector: selectors.BaseSelector, ended: threading.Event) -> None:
    """Read whatever comes, until the build has ended."""
    while not ended.is_set():
        for key, _ in selector.select(0.1):
            stream = key.fileobj
            if isinstance(stream, socket.socket) and not stream.recv(_CHUNK_BYTES):
                selector.unregister(stream)


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process's threads."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
