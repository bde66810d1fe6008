"""`ci-daemon debug`, or another command, on a pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time

from tests.e2e.daemon import Client, Daemon


class Terminal:
    """The command as a process, and the keyboard and the screen of its terminal."""

    def __init__(self, daemon: Daemon, *arguments: str, command: str = "debug", server: Client | None = None) -> None:
        """Start it on the box, or as somebody with a key elsewhere."""
        self._ours, self.theirs = pty.openpty()
        self.resize(40, 100)
        self.before = termios.tcgetattr(self.theirs)
        place = ("--state-dir", str(daemon.state)) if server is None else ()
        access = {} if server is None else {"CI_DAEMON_URL": daemon.url, "CI_DAEMON_TOKEN": server.token}
        program = (sys.executable, "-m", "ci_daemon", *place, command, *arguments)
        self.process = subprocess.Popen(
            ("setsid", "--ctty", "--wait", *program),
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=self.theirs,
            env={**daemon.environ, "TERM": "xterm", **access},
        )
        self.output = b""
        os.set_blocking(self._ours, False)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, line: str) -> None:
        os.write(self._ours, line.encode())

    def shows(self, text: str, since: int = 0) -> None:
        """Read until the text was shown, in the output ``since`` a position."""
        deadline = time.monotonic() + 60
        while text.encode() not in self.output[since:]:
            left = deadline - time.monotonic()
            assert left > 0, (text, self.output)
            if select.select([self._ours], [], [], left)[0]:
                self.output += os.read(self._ours, 1 << 16)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(10)
        os.close(self._ours)
        os.close(self.theirs)

    def answers(self, line: str, text: str) -> bool:
        """Type a line and wait for the next prompt; tell if the text was shown before it."""
        before = len(self.output)
        self.type(line)
        self.shows("# ", since=before)
        return text.encode() in self.output[before:]
