"""Ctrl-C at any moment of a command's process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from ci_daemon.interrupts import Interrupts

RUN = """
import atexit, os, signal, sys, threading
from ci_daemon.__main__ import program

def interrupt():
    # As the decorator of a data class does, which makes Python end by the signal.
    exec("os.kill(os.getpid(), signal.SIGINT)")

class Interrupting:
    left = int(sys.argv.pop(1))

    def find_spec(self, *_):
        self.left -= 1
        if self.left == 0:
            interrupt()

class Dropping:
    def __del__(self):
        interrupt()

class Finalizing:
    def find_spec(self, *_):
        sys.meta_path.remove(self)
        Dropping()
        threading.Event().wait(30)

sys.argv[1:], when = ["--version"], sys.argv[1]
match when:
    case "import":
        sys.meta_path.insert(0, Interrupting())
    case "finalizer":
        sys.meta_path.insert(0, Finalizing())
    case "end":
        atexit.register(interrupt)
program()
"""


def run(when: str, imports: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the command in a process that interrupts itself."""
    return subprocess.run(
        [sys.executable, "-c", RUN, str(imports), when], check=False, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("imports", [1, 4, 20, 100])
def test_a_command_that_is_interrupted_says_so(imports: int):
    done = run("import", imports)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "ci-daemon: interrupted")


def test_an_interrupt_in_a_finalizer_is_not_lost():
    done = run("finalizer")
    assert (done.returncode, done.stderr.strip()) == (130, "ci-daemon: interrupted")


def test_what_has_ended_is_not_interrupted():
    done = run("end")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("ci-daemon, version ")


def test_to_wait_for_a_thread_is_interrupted():
    over, ended = threading.Event(), threading.Event()

    def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        over.wait(30)
        ended.set()

    restore = Interrupts().install(signal.SIGINT)
    waited_for = threading.Thread(target=interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            started(waited_for).join(20)
        assert not ended.is_set()
    finally:
        over.set()
        restore()
        waited_for.join(20)


def started(thread: threading.Thread) -> threading.Thread:
    """Start a thread."""
    thread.start()
    return thread
