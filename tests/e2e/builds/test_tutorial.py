"""The tutorial of the manual: its commands as they stand, and what it says that they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.e2e.daemon import Client, Daemon

PAGE = (Path(__file__).parents[3] / "docs" / "tutorial.md").read_text()
_, FROM_THE_PROJECT = PAGE.split("## 2. ")


def told(text: str) -> list[str]:
    """Return the lines of a text with one space between words, without times and addresses."""
    plain = re.sub(r"\d+\.\d s", "T s", re.sub(r"http://[\w.:]+/", "http://HOST/", text))
    return [" ".join(line.split()) for line in plain.splitlines() if line.strip()]


def test_the_tutorial_is_true(daemon: Daemon, tmp_path: Path):
    Client.create(daemon, "ada@example.org")
    blocks = re.findall(r"^```sh\n(.*?)^```", FROM_THE_PROJECT, re.DOTALL | re.MULTILINE)
    environ = {
        **os.environ,
        **daemon.environ,
        "HOME": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "CI_DAEMON_STATE_DIR": str(daemon.state),
    }
    typed = subprocess.run(
        ["bash", "-euo", "pipefail"],
        input="\n".join(blocks),
        env=environ,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    assert typed.returncode == 0, typed.stdout
    printed = told(typed.stdout)
    shown = told(
        "\n".join(re.findall(r"^ {4}(.+)$", re.sub(r"```.*?```", "", FROM_THE_PROJECT, flags=re.DOTALL), re.MULTILINE))
    )
    assert len(shown) > 8
    assert [
        line.replace("/root/", f"{tmp_path}/")
        for line in shown
        if line.replace("/root/", f"{tmp_path}/") not in printed
    ] == []
    assert "the exit code is 1" in printed
    assert not (tmp_path / "acme").exists()
