"""The wheel and the sdist, installed far from the checkout. `make dist` has made them."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.console.cookies import SESSION
from ci_daemon.host.lock import served_by
from tests.waiting import until

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a user, with an environment in which the wheel is installed."""
    home = tmp_path_factory.mktemp("home")
    venv.create(home / "venv", with_pip=True)
    (wheel,) = (CHECKOUT / "dist").glob("*.whl")
    subprocess.run([home / "venv/bin/pip", "install", "--quiet", wheel], check=True, cwd=home)
    return home


def run(home: Path, *arguments: str) -> str:
    environment = {"HOME": str(home), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
    command = [str(home / "venv/bin/ci-daemon"), *arguments]
    done = subprocess.run(command, check=True, cwd=home, env=environment, capture_output=True, text=True)
    return done.stdout


def address(state: Path) -> str | None:
    serving = served_by(state)
    return serving and serving.url


@pytest.fixture(scope="module")
def url(home: Path) -> Iterator[str]:
    """The address of a service of the installed program."""
    run(home, "--state-dir", "state", "init")
    command = [str(home / "venv/bin/ci-daemon"), "--state-dir", "state", "serve", "--listen", "127.0.0.1:0"]
    with (home / "log").open("wb") as log, subprocess.Popen(command, cwd=home, stdout=log, stderr=log) as process:
        try:
            yield until(lambda: address(home / "state"), f"the service's address in {home}/log", 60)
        finally:
            process.terminate()


def page(url: str, session: str = "") -> str:
    request = urllib.request.Request(url, headers={"Cookie": f"{SESSION}={session}"})
    with urllib.request.urlopen(request) as answer:
        text: str = answer.read().decode()
        return text


def test_the_command_works_without_the_checkout(home: Path):
    (wheel,) = (CHECKOUT / "dist").glob("*.whl")
    assert run(home, "--version").split()[-1] == wheel.name.split("-")[1]
    assert "--step" in run(home, "run", "--help")


def test_the_wheel_requires_what_the_lock_names(home: Path):
    lock = (CHECKOUT / "requirements/run.txt").read_text(encoding="utf-8")
    pins = {line.partition("==")[0]: line.partition("==")[2].split()[0] for line in lock.splitlines() if "==" in line}
    listed = json.loads(
        subprocess.check_output([home / "venv/bin/pip", "list", "--format=json", "--disable-pip-version-check"])
    )
    found = {each["name"].lower().replace("_", "-").replace(".", "-"): each["version"] for each in listed}
    assert {name: found[name] for name in found.keys() & pins.keys()}.items() <= pins.items()
    assert found.keys() - pins.keys() == {"ci-daemon", "pip", "setuptools"}


def test_pages_and_their_files_are_served(home: Path, url: str):
    """The page of an organization is made of templates in folders."""
    run(home, "--state-dir", "state", "user", "add", "ada@example.org", "--name", "Ada")
    made = json.loads(
        run(home, "--state-dir", "state", "token", "create", "ada@example.org", "--kind", "session", "--json")
    )
    assert "Sign in" in page(f"{url}/login")
    assert "Ada" in page(f"{url}/", made["token"])
    assert page(f"{url}/console/static/console.css")


def test_the_same_commit_gives_the_same_bytes(tmp_path: Path):
    subprocess.run([CHECKOUT / ".ci/dist", Path(sys.prefix), tmp_path], check=True, cwd=CHECKOUT, capture_output=True)
    made = {each.name: each.read_bytes() for each in (CHECKOUT / "dist").glob("ci_daemon-*")}
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == made
