"""The command as pipx and uv install it on a user's machine: builds there, and by a server elsewhere.

Each test continues where the one before ended. `make deb` has made the wheel and the server's package.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.machine import Machine

CHECKOUT = Path(__file__).parents[2]
EXAMPLES = sorted(each.parent.parent.name for each in CHECKOUT.glob("examples/*/.hm/pipeline.py"))
UV_SETTINGS = 'no-index = true\nfind-links = ["/srv/wheels"]\n'
"""The machine's wheels in place of an index; pipx calls uv, and pip has such settings already."""


@pytest.fixture(scope="module")
def laptop() -> Iterator[Machine]:
    """A machine with Python and an ordinary user, who has pipx, uv, the wheel and the examples."""
    with Machine() as made:
        made.write("/etc/uv/uv.toml", UV_SETTINGS)
        made.run("useradd --create-home --shell /bin/bash ada")
        tools = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", made.root / "srv/wheels", "pipx"]
        subprocess.run(tools, check=True)
        made.put_checkout("/home/ada/ci-daemon")
        (wheel,) = (CHECKOUT / "dist").glob("*.whl")
        made.run("mkdir /home/ada/ci-daemon/dist")
        made.put(wheel, "/home/ada/ci-daemon/dist")
        made.put(wheel, "/srv/wheels")
        made.run("chown --recursive ada: /home/ada")
        as_ada(made, "python3 -m venv ~/tools && ~/tools/bin/pip install --quiet pipx uv")
        yield made


def as_ada(machine: Machine, command: str) -> str:
    script = f"cd ~/ci-daemon && export PATH=~/.local/bin:~/tools/bin:$PATH && {command}"
    return machine.run(f"su - ada -c {shlex.quote(script)}", seconds=900).stdout


@pytest.fixture(scope="module")
def server(laptop: Machine) -> Iterator[dict[str, Any]]:
    """A service on another machine, installed from the package, and its owner's access from the laptop."""
    (package,) = (CHECKOUT / "dist").glob("ci-daemon_*~debian12_*.deb")
    with Machine() as machine:
        _, address = laptop.connect(machine)
        machine.put(package, "/srv/ci-daemon.deb")
        machine.run("dpkg --install /srv/ci-daemon.deb", seconds=900)
        machine.run(f"sed -i 's/^#listen = .*/listen = \"{address}:8800\"/' /etc/ci-daemon/ci-daemon.toml")
        machine.run("systemctl restart ci-daemon")
        yield json.loads(machine.run("ci-daemon install --owner ada@example.org --json", seconds=900).stdout)


def test_pipx_runs_it_from_nothing(laptop: Machine):
    assert "build #1 passed" in as_ada(laptop, "XDG_CACHE_HOME=~/once pipx run ci-daemon run examples/hello")
    as_ada(laptop, "! command -v ci-daemon")


def test_uv_installs_it(laptop: Machine):
    as_ada(laptop, "uv tool install ./dist/*.whl")
    assert "--step" in as_ada(laptop, "ci-daemon run --help")
    as_ada(laptop, "uv tool uninstall ci-daemon")


def test_pipx_installs_it(laptop: Machine):
    as_ada(laptop, "pipx install ./dist/*.whl")
    assert "--step" in as_ada(laptop, "ci-daemon run --help")


@pytest.mark.parametrize("example", EXAMPLES)
def test_it_runs_an_example(laptop: Machine, example: str):
    assert "build #1 passed" in as_ada(laptop, f"ci-daemon run examples/{example}")


def test_a_server_elsewhere_builds(laptop: Machine, server: dict[str, Any]):
    access = f"export CI_DAEMON_URL={server['url']} CI_DAEMON_TOKEN={server['owner']['token']}"
    assert "build #1 passed" in as_ada(laptop, f"{access}; ci-daemon submit examples/hello")
    builds = json.loads(
        as_ada(laptop, f"{access}; ci-daemon build list {server['owner']['organization']}/hello --json")
    )
    assert [(each["number"], each["state"]) for each in builds] == [(1, "passed")]
