"""Power cuts, after which nothing is forgotten (engine.md, "After a crash").

`make test` cuts twice, `make test-power` POWER_CUTS times. POWER_SEED repeats the moments of an earlier run; the work
that is under way at each depends on the machine, too.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system"),
]

_CHECKOUT = Path(__file__).parents[2]
_ALONE = ("unshare", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child=KILL", "--mount-proc")
"""No other process holds the disk that is cut off, and nothing is left."""


def test_a_file_is_on_the_disk_once_it_is_written(tmp_path: Path):
    program = (sys.executable, "-m", "tests.power.cut_files", str(tmp_path))
    done = subprocess.run((*_ALONE, *program), cwd=_CHECKOUT, check=True, stdout=subprocess.PIPE)
    assert json.loads(done.stdout) == []


def test_after_power_cuts_all_that_was_told_is_so(images_dir: Path, tmp_path: Path):
    cuts = os.environ.get("POWER_CUTS") or "2"
    seed = os.environ.get("POWER_SEED") or str(random.randrange(10**9))
    program = (sys.executable, "-m", "tests.power.power_run", str(tmp_path), str(images_dir), cuts, seed)
    assert subprocess.run((*_ALONE, *program), cwd=_CHECKOUT, check=False).returncode == 0
