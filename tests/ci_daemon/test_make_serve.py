"""`make serve`: the service with a user who has an API key and a link."""

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
def make_serve(run: Path, images: Path) -> Iterator[tuple[str, str]]:
    """Run `make serve` on an environment that exists, until the end of the block.

    Yields what it prints before it serves, and the URL of the service.
    """
    variables = [f"RUN={run}", f"BIN={Path(sys.executable).parent}"]
    with subprocess.Popen(
        ["make", "--no-print-directory", "--old-file=setup", *variables, "serve"],
        cwd=CHECKOUT,
        env={**os.environ, "CI_DAEMON_IMAGES_DIR": str(images), "CI_DAEMON_HTTP_LISTEN": "127.0.0.1:0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            printed = ""
            while " serving " not in (line := process.stdout.readline()):
                assert line, printed
                printed += line
            yield printed, line.split()[-1]
        finally:
            os.killpg(process.pid, signal.SIGINT)


def test_it_serves_with_a_key_and_a_link_and_can_be_run_again(tmp_path: Path, images_dir: Path):
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
