from __future__ import annotations

import io
import logging
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from actors.supervision import LogContextFilter, set_log_context
from ci_daemon.host.journal import Journal, JournalHandler, LineFormatter, set_up, under_journald
from ci_daemon.settings import JournalSettings

if TYPE_CHECKING:
    from collections.abc import Iterator


def record(message: str, *args: object, level: int = logging.INFO, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("actors.scheduling.pool", level, "pool.py", 1, message, args, None)
    made.__dict__.update(extra)
    return made


@pytest.fixture
def root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    quiet = {name: logging.getLogger(name).level for name in ("paramiko", "waitress.queue")}
    yield
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(capture=False)
    for name, before in quiet.items():
        logging.getLogger(name).setLevel(before)


def test_one_line_with_time_level_logger_message_and_pairs():
    line = LineFormatter(journald=False).format(record("granted %s", "a VM", job="j 1", wait=3, note=""))
    assert re.fullmatch(
        r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z info actors\.scheduling\.pool: granted a VM job="j 1" note="" wait=3',
        line,
    )


def received(listener: socket.socket) -> dict[str, str]:
    """Receive an entry; return its fields as journald reads them."""
    data, descriptors, _, _ = socket.recv_fds(listener, 1 << 20, 1)
    if descriptors:
        with os.fdopen(descriptors[0], "rb") as file:
            file.seek(0)
            data = file.read()
    fields = {}
    while data:
        name, _, data = data.partition(b"\n")
        size = int.from_bytes(data[:8], "little")
        fields[name.decode()] = data[8 : 8 + size].decode()
        data = data[9 + size :]
    return fields


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket of a journal."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as opened:
        opened.bind(str(tmp_path / "socket"))
        yield opened


def test_the_journal_gets_the_text_its_priority_and_fields(listener: socket.socket, tmp_path: Path):
    handler = JournalHandler(Journal.connect(tmp_path / "socket"))
    handler.emit(
        record("no %s", "VM", level=logging.ERROR, build="b-1", request_id="-", **{"odd key": "x\nPRIORITY=0"})
    )
    assert received(listener) == {
        "MESSAGE": "error actors.scheduling.pool: no VM build=b-1 odd key=x\\nPRIORITY=0",
        "PRIORITY": "3",
        "SYSLOG_IDENTIFIER": "ci-daemon",
        "LOGGER": "actors.scheduling.pool",
        "CI_BUILD": "b-1",
        "CI_ODD_KEY": "x\nPRIORITY=0",
    }
    handler.emit(record("x" * 1_000_000))
    assert len(received(listener)["MESSAGE"]) > 1_000_000


def test_a_pair_without_a_value_is_left_out():
    assert LineFormatter(journald=True).format(record("x", request_id="-")) == "info actors.scheduling.pool: x"


def test_no_text_can_forge_a_line():
    line = LineFormatter(journald=True).format(record("a\n<0>panic \x1b[31m", who="eve\r\nadam"))
    assert line == "info actors.scheduling.pool: a\\n<0>panic \\x1b[31m who=eve\\r\\nadam"


def test_a_line_has_the_log_context_of_its_thread():
    """A worker's lines have that of the thread that started it."""

    def line() -> str:
        made = record("x", job="its own")
        LogContextFilter().filter(made)
        return LineFormatter(journald=True).format(made)

    def speak() -> None:
        set_log_context(build="b", job="j")
        lines.append(line())

    lines: list[str] = []
    speaking = threading.Thread(target=speak)
    speaking.start()
    speaking.join()
    assert lines == ['info actors.scheduling.pool: x build=b job="its own"']
    assert line() == 'info actors.scheduling.pool: x job="its own"'


def test_journald_is_known_by_the_streams_own_device():
    with tempfile.TemporaryFile("w") as stream:
        status = os.fstat(stream.fileno())
        assert under_journald(stream, {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"})
        assert not under_journald(stream, {"JOURNAL_STREAM": f"{status.st_dev}:1"})
        assert not under_journald(stream, {})
    assert not under_journald(io.StringIO(), {"JOURNAL_STREAM": "1:1"})


@pytest.mark.usefixtures("root_logger")
def test_set_up_applies_the_level_and_quiets_third_parties():
    stream = io.StringIO()
    set_up(JournalSettings(level="info"), stream=stream)
    logging.getLogger("actors.scheduling.pool").info("seen")
    logging.getLogger("actors.scheduling.pool").debug("not seen")
    logging.getLogger("paramiko.transport").warning("not seen")
    logging.getLogger("waitress.queue").warning("not seen")
    assert stream.getvalue().count("\n") == 1
    assert "info actors.scheduling.pool: seen" in stream.getvalue()


def test_a_warning_of_python_is_a_line_too():
    code = (
        "import warnings\n"
        "from ci_daemon.host.journal import set_up\n"
        "from ci_daemon.settings import JournalSettings\n"
        "set_up(JournalSettings()); warnings.warn('old', stacklevel=1)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "warning py.warnings: " in done.stderr
    assert done.stderr.count("\n") == 1
