"""Signals while a build runs, and at other times."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ci_daemon.local import BuildInterrupts


def test_the_first_signal_cancels_the_build_and_the_next_raises():
    interrupts, canceled = BuildInterrupts(), threading.Event()
    with interrupts.handled(), interrupts.canceling(canceled.set):
        signal.raise_signal(signal.SIGTERM)
        assert canceled.wait(10)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert interrupts.exit_code == 128 + signal.SIGTERM


def test_what_cleans_up_is_not_interrupted():
    interrupts = BuildInterrupts()
    with interrupts.handled():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    assert interrupts.exit_code == 128 + signal.SIGINT


def test_a_build_that_ends_by_itself_is_not_canceled():
    interrupts, canceled = BuildInterrupts(), threading.Event()
    before = signal.getsignal(signal.SIGINT)
    with interrupts.handled():
        with interrupts.canceling(canceled.set):
            pass
        threads = [each for each in threading.enumerate() if each.name == "cancel"]
        for each in threads:
            each.join(10)
    assert not canceled.is_set()
    assert interrupts.exit_code is None
    assert signal.getsignal(signal.SIGINT) is before


_INTERRUPTED_IMPORT = """
import signal
from ci_daemon.local import BuildInterrupts
interrupts = BuildInterrupts()
with interrupts.handled():
    try:
        exec("signal.raise_signal(signal.SIGINT)")
    except KeyboardInterrupt:
        print(interrupts.exit_code)
"""


def test_a_signal_while_a_module_is_imported_keeps_the_exit_code():
    """The decorator of a data class uses `exec`, in which Python takes KeyboardInterrupt as not handled."""
    done = subprocess.run([sys.executable, "-c", _INTERRUPTED_IMPORT], check=False, stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (0, b"130\n")


_SIGNALED = "signal.raise_signal(signal.SIGINT); went_on.set()"
_MUST_END = pytest.mark.parametrize(
    ("file", "module"),
    [("<frozen importlib._bootstrap>", "x"), ("x", "storage.x"), ("x", "contextlib"), ("x", "threading")],
)


@_MUST_END
def test_imports_transactions_and_locks_are_not_interrupted(file: str, module: str):
    """Each would keep its lock, or what it has entered; the interrupt comes when they have ended."""
    interrupts, went_on = BuildInterrupts(), threading.Event()
    with interrupts.handled():
        exec(compile(_SIGNALED, file, "exec"), {"__name__": module, "signal": signal, "went_on": went_on})
        with pytest.raises(KeyboardInterrupt):
            threading.Event().wait(10)
    assert went_on.is_set()
    assert interrupts.exit_code == 128 + signal.SIGINT


@_MUST_END
def test_an_interrupt_that_waited_cancels_the_build_of_meanwhile(file: str, module: str):
    interrupts, went_on, canceled = BuildInterrupts(), threading.Event(), threading.Event()
    with interrupts.handled():
        exec(compile(_SIGNALED, file, "exec"), {"__name__": module, "signal": signal, "went_on": went_on})
        with interrupts.canceling(canceled.set):
            assert canceled.wait(10)
            for each in threading.enumerate():
                if isinstance(each, threading.Timer):
                    each.join(10)


class Interrupting:
    """Receives a signal in its finalizer, whose exceptions Python drops."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def test_an_interrupt_that_nobody_has_seen_is_raised_again(capsys: pytest.CaptureFixture[str]):
    interrupts, hook = BuildInterrupts(), sys.unraisablehook
    with interrupts.handled():
        Interrupting()
        with pytest.raises(KeyboardInterrupt):
            threading.Event().wait(10)
    assert sys.unraisablehook is hook
    assert capsys.readouterr().err == ""


def test_an_interrupt_that_nobody_has_seen_cancels_the_build():
    interrupts, canceled = BuildInterrupts(), threading.Event()
    with interrupts.handled():
        Interrupting()
        with interrupts.canceling(canceled.set):
            assert canceled.wait(10)


def test_the_end_is_not_interrupted():
    interrupts = BuildInterrupts()
    with interrupts.handled():
        with interrupts.before_the_end():
            pass
        signal.raise_signal(signal.SIGINT)
    assert interrupts.exit_code == 128 + signal.SIGINT


def test_an_interrupt_that_waits_comes_before_the_handlers_end():
    """The handler of before could end the process."""
    interrupts, went_on, late = BuildInterrupts(), threading.Event(), threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: late.set())
    try:
        with interrupts.handled():
            exec(compile(_SIGNALED, "x", "exec"), {"__name__": "storage.x", "signal": signal, "went_on": went_on})
        for each in threading.enumerate():
            if isinstance(each, threading.Timer):
                each.join(10)
    finally:
        signal.signal(signal.SIGINT, before)
    assert went_on.is_set()
    assert not late.is_set()


def test_a_thread_that_is_being_started_is_not_lost():
    """One that no executor knew would not be waited for."""
    interrupts, names = BuildInterrupts(), list[str]()
    executor = ThreadPoolExecutor(1, initializer=lambda: os.kill(os.getpid(), signal.SIGINT))
    with interrupts.handled():
        executor.submit(lambda: names.append(threading.current_thread().name))
        with pytest.raises(KeyboardInterrupt):
            threading.Event().wait(10)
    executor.shutdown()
    assert len(names) == 1
