"""`make run`: it serves, builds the example on real VMs, and can be run again."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ci_daemon.host.lock import served_by
from ci_daemon.tour import Tour
from storage import SignInLinkKind, Storage, SystemClock
from tests.state import new_storage


@pytest.fixture
def folder(tmp_path: Path, images_dir: Path) -> Iterator[Path]:
    yield tmp_path / "run"
    command(tmp_path / "run", images_dir, "lease", "kill", "--all")


def command(folder: Path, images_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "ci_daemon", "--state-dir", str(folder / "state"), "--json", *arguments]
    environ = {**os.environ, "CI_DAEMON_IMAGES_DIR": str(images_dir)}
    return subprocess.run(argv, env=environ, check=True, capture_output=True, text=True)


def tour(folder: Path, images_dir: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ci_daemon.tour", str(folder)],
        env={**os.environ, "CI_DAEMON_IMAGES_DIR": str(images_dir)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_interrupted_in_the_middle_it_leaves_nothing_behind(folder: Path, images_dir: Path):
    with subprocess.Popen(
        [sys.executable, "-m", "ci_daemon.tour", str(folder)],
        env={**os.environ, "CI_DAEMON_IMAGES_DIR": str(images_dir)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert any("build #1 of" in line for line in process.stdout)
        os.killpg(process.pid, signal.SIGINT)
        printed = process.stdout.read()
        assert process.wait(60) == 130
    assert printed.splitlines()[-1] == "build #1 is canceled"
    assert served_by(folder / "state") is None
    assert json.loads(command(folder, images_dir, "lease", "list").stdout) == []


def test_builds_the_example_and_ends_as_the_build_ends_and_again(folder: Path, images_dir: Path):
    first = tour(folder, images_dir)
    assert first.returncode == 0, first.stdout + first.stderr + (folder / "service.log").read_text()
    lines = first.stdout.splitlines()
    assert "Install | installed ordinal into /usr/local/lib/python3.11/dist-packages/ordinal" in lines
    assert any(line.startswith("Report  | Hello, Ada!") for line in lines)
    for name in ("Install", "Lint", "Test", "Report"):
        assert any(line.split()[:2] == [name, "passed"] for line in lines)
    assert "build #1 passed" in first.stdout
    assert lines[-3].startswith("Start the service again: ")
    assert lines[-2].startswith("Then build a tree of your own: ")
    link = re.fullmatch(
        r"While it runs, sign in as ada@example\.org, .*: http://\S+/login/recover#([\w-]{43})", lines[-1]
    )
    assert link is not None
    with closing(Storage.open(folder / "state", SystemClock())) as storage:
        found = storage.sign_in_links.read(SignInLinkKind.MAGIC_LINK, link[1])
        assert found is not None
        assert found.email == "ada@example.org"
    assert served_by(folder / "state") is None
    assert (folder / "token").stat().st_mode & 0o777 == 0o600

    second = tour(folder, images_dir)
    assert second.returncode == 0
    assert "build #2 passed" in second.stdout


def test_the_service_takes_any_port_if_the_usual_one_is_taken(folder: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        usual = f"127.0.0.1:{taken.getsockname()[1]}"
        tour = Tour(folder, usual)
        tour.token()
        with tour.service() as url:
            assert url.startswith("http://127.0.0.1:")
            assert url != f"http://{usual}"


def test_a_user_without_a_key_gets_another_one(folder: Path):
    folder.mkdir()
    with closing(new_storage(folder / "state", SystemClock())) as storage:
        user = storage.users.create("ada@example.org", "Ada")
        caller = storage.tokens.caller(Tour(folder).token())
        assert caller is not None
        assert caller.user.id == user.id
