from __future__ import annotations

import io
import logging
import os
import re
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

import pytest

from ci_daemon.journal import JournalSettings, LineFormatter, set_up, under_journald

if TYPE_CHECKING:
    from collections.abc import Iterator


def record(message: str, *args: object, level: int = logging.INFO, **extra: object) -> logging.LogRecord:
    made = logging.LogRecord("actors.pool", level, "pool.py", 1, message, args, None)
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
        r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z info actors\.pool: granted a VM job="j 1" note="" wait=3', line
    )


def test_under_journald_the_priority_comes_first_and_the_time_is_journalds():
    formatter = LineFormatter(journald=True)
    assert formatter.format(record("x", level=logging.ERROR)) == "<3>error actors.pool: x"
    assert formatter.format(record("x", level=logging.WARNING)) == "<4>warning actors.pool: x"
    assert formatter.format(record("x", level=logging.DEBUG)) == "<7>debug actors.pool: x"


def test_a_pair_without_a_value_is_left_out():
    assert LineFormatter(journald=True).format(record("x", request_id="-")) == "<6>info actors.pool: x"


def test_no_text_can_forge_a_line():
    line = LineFormatter(journald=True).format(record("a\n<0>panic \x1b[31m", who="eve\r\nadam"))
    assert line == "<6>info actors.pool: a\\n<0>panic \\x1b[31m who=eve\\r\\nadam"


def test_each_line_of_a_traceback_carries_the_priority():
    try:
        raise ValueError("no\nway")
    except ValueError:
        failed = record("failed", level=logging.ERROR)
        failed.exc_info = sys.exc_info()
    lines = LineFormatter(journald=True).format(failed).splitlines()
    assert lines[0] == "<3>error actors.pool: failed"
    assert lines[-1] == "<3>way"
    assert all(line.startswith("<3>") for line in lines)


def test_journald_is_known_by_the_streams_own_device():
    with tempfile.TemporaryFile("w") as stream:
        status = os.fstat(stream.fileno())
        assert under_journald(stream, {"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"})
        assert not under_journald(stream, {"JOURNAL_STREAM": f"{status.st_dev}:1"})
        assert not under_journald(stream, {})
    assert not under_journald(io.StringIO(), {"JOURNAL_STREAM": "1:1"})


@pytest.mark.usefixtures("root_logger")
def test_set_up_writes_from_the_given_level_on_and_keeps_third_parties_quiet():
    stream = io.StringIO()
    set_up(JournalSettings(level="info"), stream=stream)
    logging.getLogger("actors.pool").info("seen")
    logging.getLogger("actors.pool").debug("not seen")
    logging.getLogger("paramiko.transport").warning("not seen")
    logging.getLogger("waitress.queue").warning("not seen")
    assert stream.getvalue().count("\n") == 1
    assert "info actors.pool: seen" in stream.getvalue()


def test_a_warning_of_python_is_a_line_too():
    code = (
        "import warnings; from ci_daemon.journal import JournalSettings, set_up\n"
        "set_up(JournalSettings()); warnings.warn('old', stacklevel=1)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "warning py.warnings: " in done.stderr
    assert done.stderr.count("\n") == 1
