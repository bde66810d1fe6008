"""`make run` builds the example; `make serve` runs the service for a user with an API key and a link."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx

from ci_daemon.host.lock import served_by
from storage import SignInLinkKind, Storage, SystemClock
from tests.state import new_storage

CHECKOUT = Path(__file__).parents[2]


@contextmanager
def make(target: str, run: Path, images: Path, **environ: str) -> Iterator[subprocess.Popen[str]]:
    """Run a target of the Makefile on an environment that exists, with all that it keeps in a folder."""
    variables = [f"RUN={run}", f"PROGRAM={Path(sys.executable).parent / 'ci-daemon'}"]
    with subprocess.Popen(
        ["make", "--no-print-directory", "--old-file=ready", "--old-file=first", *variables, target],
        cwd=CHECKOUT,
        env={**os.environ, "CI_DAEMON_IMAGES_DIR": str(images), **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        yield process


@contextmanager
def make_serve(run: Path, images: Path) -> Iterator[tuple[str, str]]:
    """Serve until the end of the block; yields what is printed before that, and the URL of the service."""
    with make("serve", run, images, CI_DAEMON_HTTP_LISTEN="127.0.0.1:0") as process:
        try:
            assert process.stdout is not None
            printed = ""
            while " serving " not in (line := process.stdout.readline()):
                assert line, printed
                printed += line
            yield printed, line.split()[-1]
        finally:
            os.killpg(process.pid, signal.SIGINT)


def test_run_builds_the_example(tmp_path: Path, images_dir: Path):
    with make("run", tmp_path, images_dir) as process:
        assert process.stdout is not None
        lines = process.stdout.read().splitlines()
        assert process.wait(60) == 0, lines
    assert "Install | installed ordinal into /usr/local/lib/python3.11/dist-packages/ordinal" in lines
    assert [line.split()[0] for line in lines if line.split()[1:2] == ["passed"]] == [
        "Install",
        "Lint",
        "Test",
        "Report",
    ]
    assert lines[-1].startswith("build #1 passed in ")


def test_serve_has_a_key_and_a_link_and_can_be_run_again(tmp_path: Path, images_dir: Path):
    new_storage(tmp_path / "state", SystemClock()).close()
    (tmp_path / "state" / "ci-daemon.toml").write_text("")
    keys = set()
    for _ in range(2):
        with make_serve(tmp_path, images_dir) as (printed, url):
            keys.add(key := (tmp_path / "token").read_text().strip())
            user = httpx.get(f"{url}/api/v0/user", headers={"Authorization": f"Bearer {key}"}).json()
            assert user["email"] == "ada@example.org"
            assert f"CI_DAEMON_TOKEN=$(cat {tmp_path / 'token'}) " in printed
            link = re.search(
                r"^Sign in as ada@example\.org, .*: http://\S+/login/recover#(\S{43})$", printed, re.MULTILINE
            )
            assert link is not None, printed
            with closing(Storage.open(tmp_path / "state", SystemClock())) as storage:
                found = storage.sign_in_links.read(SignInLinkKind.MAGIC_LINK, link[1])
            assert found is not None
            assert found.email == user["email"]
        assert served_by(tmp_path / "state") is None
    assert len(keys) == 1
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
