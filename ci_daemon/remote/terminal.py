"""A terminal on a fork of a job's disk at a server, at this process's own terminal."""

from __future__ import annotations

import base64
import json
import os
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from api.operations import terminals
from ci_daemon.remote.errors import RequestFailed, ServiceUnreachable
from ci_daemon.terminal.raw import raw_mode, resize_events

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ci_daemon.remote.connection import Connection

_PART_BYTES = 12 << 10
_AGAIN_SECONDS = 1.0
_FULL_SECONDS = 0.1
_INTERRUPT = b"\x03"
_FINAL = 500
"""The least status of what may be otherwise later."""


class TerminalEnded(Exception):
    """The terminal has ended without an exit code of its shell; the message says why."""


class RemoteTerminal:
    """A terminal that is open at a server. What is typed is sent in order, and nothing twice.

    While the server cannot be reached, Ctrl-C leaves the terminal instead of being sent.
    """

    def __init__(self, server: Connection, job: Mapping[str, str], *, before: bool) -> None:
        """Open it. Raises RequestFailed and ServiceUnreachable."""
        size = os.get_terminal_size(sys.stdout.fileno())
        body = {"before": before, "columns": max(1, size.columns), "rows": max(1, size.lines)}
        self._server = server
        self._names = {**job, "terminal": server.perform(terminals.open_terminal, job, body).uuid}
        self._changed = threading.Condition()
        self._waiting = b""
        self._typed: int | None = None
        self._size: tuple[int, int] | None = None
        self._connected = self._over = False
        self._failure: Exception | None = None

    def run(self) -> int:
        """Show it until its shell ends; return the exit code. Raises TerminalEnded and RequestFailed."""
        stdin = sys.stdin.fileno()
        with raw_mode(stdin), resize_events(self._resized):
            for work in (self._read_keys, self._send_keys):
                threading.Thread(target=work, name="terminal-keys", daemon=True).start()
            try:
                return self._follow()
            finally:
                with self._changed:
                    self._over = True
                    self._changed.notify_all()

    def close(self) -> None:
        """End it, if it has not ended."""
        with suppress(RequestFailed, ServiceUnreachable):
            self._server.perform(terminals.close_terminal, self._names)

    def _follow(self) -> int:
        last, told = "", False
        while True:
            try:
                with self._server.events(terminals.OUTPUT, self._names, last) as events:
                    for name, number, data in events:
                        last, told = number or last, False
                        if (exit_code := self._take(name, data)) is not None:
                            return exit_code
            except RequestFailed as error:
                if error.status < _FINAL:
                    raise
            except ServiceUnreachable:
                pass
            self._connected = False
            if not told:
                _show(b"\r\n[the connection is lost; trying again, and Ctrl-C leaves]\r\n")
                told = True
            with self._changed:
                self._changed.wait_for(lambda: self._failure is not None, _AGAIN_SECONDS)
            if self._failure is not None:
                raise self._failure

    def _take(self, name: str, data: str) -> int | None:
        """Take an event; return the exit code with the last one."""
        if self._failure is not None:
            raise self._failure
        match name:
            case "output":
                _show(base64.b64decode(data))
                return None
            case "begin":
                with self._changed:
                    self._connected = True
                    self._note_typed(int(_of(data, "typed")))
            case "lost":
                _show(f"\r\n[{_of(data, 'left_out')} bytes are left out]\r\n".encode())
            case "exit":
                return int(_of(data, "exit_code"))
            case "end":
                raise TerminalEnded(f"the terminal has ended: {_of(data, 'why')}")
            case "replaced":
                raise TerminalEnded("the terminal is shown elsewhere")
        return None

    def _read_keys(self) -> None:
        while typed := os.read(sys.stdin.fileno(), _PART_BYTES):
            with self._changed:
                if not self._connected and _INTERRUPT in typed:
                    self._failure = TerminalEnded("left while the server could not be reached")
                elif len(self._waiting) < _PART_BYTES:
                    self._waiting += typed
                self._changed.notify_all()

    def _resized(self) -> None:
        with self._changed:
            size = os.get_terminal_size(sys.stdout.fileno())
            self._size = size.columns, size.lines
            self._changed.notify_all()

    def _send_keys(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._over or self._size or (self._waiting and self._typed is not None))
                if self._over:
                    return
                size, self._size = self._size, None
                at, part = self._typed or 0, self._waiting[:_PART_BYTES] if self._typed is not None else b""
            try:
                if size is not None:
                    self._server.perform(terminals.resize_terminal, self._names, {"columns": size[0], "rows": size[1]})
                if part:
                    self._type(at, part)
            except (RequestFailed, ServiceUnreachable) as error:
                if isinstance(error, RequestFailed) and error.status < _FINAL:
                    return  # the stream says why
                self._put_back(size)
                time.sleep(_AGAIN_SECONDS)

    def _put_back(self, size: tuple[int, int] | None) -> None:
        """Keep a size that could not be sent for the next try, unless there is another one by now."""
        with self._changed:
            self._size = self._size or size

    def _type(self, at: int, part: bytes) -> None:
        body = {"at": at, "data": base64.b64encode(part).decode()}
        typed = self._server.perform(terminals.type_in_terminal, self._names, body).typed
        with self._changed:
            self._note_typed(typed)
        if typed < at + len(part):
            time.sleep(_FULL_SECONDS)

    def _note_typed(self, number: int) -> None:
        """Forget what was typed up to a byte; the first time it is where this terminal begins to type."""
        if self._typed is None or number > self._typed:
            self._waiting = self._waiting[number - self._typed :] if self._typed is not None else self._waiting
            self._typed = number
        self._changed.notify_all()


def _show(data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(sys.stdout.fileno(), left) :]


def _of(data: str, name: str) -> Any:  # noqa: ANN401 - JSON
    return json.loads(data).get(name, "")
