"""Folders in memory: those in use stay, those of killed processes go."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.memory_folder import memory_folder

_MAKE = "from tests.memory_folder import memory_folder; made = memory_folder(); print(made.name, flush=True); "
_HERE = Path(__file__).parent.parent


def test_a_folder_in_use_outlives_a_look_from_another_namespace() -> None:
    with memory_folder() as folder:
        elsewhere = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")
        subprocess.run([*elsewhere, sys.executable, "-c", _MAKE], check=True, cwd=_HERE, stdout=subprocess.PIPE)
        assert Path(folder).is_dir()


def test_the_folder_of_a_killed_process_goes() -> None:
    argv = [sys.executable, "-c", f"{_MAKE} input()"]
    with subprocess.Popen(argv, cwd=_HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        folder = Path(process.stdout.readline().strip())
        process.send_signal(signal.SIGKILL)
    assert folder.is_dir()
    with memory_folder():
        assert not folder.exists()
