"""`--watch`: it redraws in place on a terminal, appends elsewhere, and ends cleanly."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import ended

Ending = Callable[[subprocess.Popen[bytes], int], None]


def interrupt(process: subprocess.Popen[bytes], _keyboard: int) -> None:
    process.send_signal(signal.SIGINT)


def press_q(_process: subprocess.Popen[bytes], keyboard: int) -> None:
    os.write(keyboard, b"q")


def watching(state: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "ci_daemon", "--state-dir", str(state), *arguments, "--watch"]


@pytest.mark.parametrize(("command", "shown"), [("status", b"none under way"), ("queue", b"no job waits for a VM")])
@pytest.mark.parametrize("end", [interrupt, press_q])
def test_on_a_terminal_it_is_drawn_in_place(state: Path, command: str, shown: bytes, end: Ending):
    keyboard, screen = pty.openpty()
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    drawn = b""
    with ended(
        subprocess.Popen(watching(state, command), env=environ, stdin=screen, stdout=screen, stderr=screen)
    ) as process:
        while drawn.count(shown) < 2:
            drawn += os.read(keyboard, 65536)
        end(process, keyboard)
        while b"\x1b[?1049l" not in drawn:
            drawn += os.read(keyboard, 65536)
        assert process.wait(30) == 0
    os.close(screen)
    os.close(keyboard)
    assert b"\x1b[?1049h" in drawn, "on a screen of its own"
    assert b"Traceback" not in drawn


@pytest.mark.parametrize("terminal", ["dumb", ""])
def test_on_a_dumb_terminal_screens_follow_each_other(state: Path, terminal: str):
    keyboard, screen = pty.openpty()
    drawn = b""
    environ = {**os.environ, "TERM": terminal}
    with ended(
        subprocess.Popen(watching(state, "queue"), env=environ, stdin=screen, stdout=screen, stderr=screen)
    ) as process:
        while drawn.count(b"no job waits for a VM\r\n") < 2:
            drawn += os.read(keyboard, 65536)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    os.close(screen)
    os.close(keyboard)
    assert b"\x1b" not in drawn


def test_in_a_pipe_screens_follow_each_other(state: Path):
    with ended(subprocess.Popen(watching(state, "status"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)) as process:
        assert process.stdout is not None
        heads = [line for line, _ in zip(iter(process.stdout.readline, b""), range(12), strict=False)]
        process.send_signal(signal.SIGINT)
        rest, complaint = process.communicate(timeout=30)
    assert [line.split()[0] for line in heads].count(b"service") == 2
    assert b"\x1b" not in b"".join(heads) + rest
    assert (process.returncode, complaint) == (0, b"")


def test_with_json_each_line_is_a_document(state: Path):
    with ended(subprocess.Popen(watching(state, "status", "--json"), stdout=subprocess.PIPE)) as process:
        assert process.stdout is not None
        documents = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    assert {each["state_dir"] for each in documents} == {str(state)}


def test_a_reader_that_had_enough_ends_it(state: Path):
    with ended(subprocess.Popen(watching(state, "queue"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(30) == 1
        assert process.stderr is not None
        assert process.stderr.read() == b""
