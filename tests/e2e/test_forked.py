"""Programs that are forked from a process that has imported them do what they do by themselves."""

from __future__ import annotations

from pathlib import Path
from signal import SIGKILL
from tempfile import TemporaryFile

import pytest

from tests.e2e.daemon import Daemon, ForkedDaemon
from tests.forked import Forked


@pytest.mark.parametrize("command", ["--version", "lease list", "no-such-command"])
def test_a_forked_command_prints_and_returns_the_same(command: str, tmp_path: Path):
    settings = {"CI_DAEMON_STATE_DIR": str(tmp_path / "none"), "NO_COLOR": "1"}
    own, forked = (
        kind(tmp_path / "none", settings).command(*command.split(), check=False) for kind in (Daemon, ForkedDaemon)
    )

    assert (forked.returncode, forked.stdout, forked.stderr) == (own.returncode, own.stdout, own.stderr)


def test_a_forked_program_has_its_environment_and_is_killed():
    with TemporaryFile() as stdout:
        program = Forked("timeit", ["-n1", "-r1", "import os; print(sorted(os.environ))"], {"A": "1"}, stdout, stdout)
        assert program.wait(60) == 0
        stdout.seek(0)
        assert stdout.readline() == b"['A']\n"

        endless = Forked("timeit", ["-n1", "-r1", "import signal; signal.pause()"], {}, stdout, stdout)
        endless.kill()
        assert endless.wait(60) == -SIGKILL
