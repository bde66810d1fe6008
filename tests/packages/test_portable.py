"""The portable archive, unpacked in a folder with a space in its name. `make portable` has made it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.debian import bootstrap, kept, of_host
from tests.system import template

CHECKOUT = Path(__file__).parents[2]
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
PYTHONS = {"noble": "3.12", "trixie": "3.13", "forky": "3.14"}
KEYS = {"noble": Path("/usr/share/keyrings/ubuntu-archive-keyring.gpg")}
INSIDE = """
mount --bind "$2" "$1/mnt"
mount -t proc proc "$1/proc"
exec chroot "$1" sh -ec '
lib=/mnt/lib/$(python3 -c "import sys; print(*sys.version_info[:2], sep=chr(46))")
python3 -Ic "import sys; sys.path.insert(0, sys.argv[1]); import ci_daemon.service, webauthn, yaml, watchfiles" $lib
export HOME=/tmp
/mnt/bin/ci-daemon --state-dir /tmp/state init >/dev/null
/mnt/bin/ci-daemon --state-dir /tmp/state user add ada@example.org --name Ada >/dev/null
/mnt/bin/ci-daemon --state-dir /tmp/state user list
rm -r /tmp/state
echo $lib'
"""


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of the unpacked archive, by a link as users make one."""
    home = tmp_path_factory.mktemp("a home")
    (archive,) = (CHECKOUT / "dist").glob("ci-daemon-*.tar.gz")
    subprocess.run(["tar", "-xzf", archive, "-C", home], check=True)
    (unpacked,) = home.glob("ci-daemon-*")
    (link := home / "ci-daemon").symlink_to(unpacked / "bin/ci-daemon")
    return link


def run(command: Path, *arguments: str, path: str = _PATH, **environ: str) -> subprocess.CompletedProcess[str]:
    home = command.parent
    environment = {"HOME": str(home), "PATH": path, "LC_ALL": "C.UTF-8", **environ}
    return subprocess.run(
        [command, *arguments], cwd=home, env=environment, capture_output=True, text=True, check=False, timeout=900
    )


def test_it_runs_with_the_systems_python(command: Path):
    (unpacked,) = command.parent.glob("ci-daemon-*")
    (wheel,) = (CHECKOUT / "dist").glob("*.whl")
    done = run(command, "--version")
    assert done.stdout.split()[-1] == wheel.name.split("-")[1], done.stderr
    assert {each.name for each in (unpacked / "lib").iterdir()} == {"3.11", "3.12", "3.13", "3.14"}


@pytest.mark.parametrize("suite", PYTHONS)
def test_it_runs_with_the_python_of_other_releases(command: Path, suite: str):
    if suite in KEYS and not KEYS[suite].exists():
        pytest.skip("the keys of Ubuntu's archive are not here: install ubuntu-keyring")
    (unpacked,) = command.parent.glob("ci-daemon-*")
    recipe = partial(bootstrap, suite, packages=["ca-certificates", "python3"], hooks=[])
    tree = kept(template.FOLDER, f"python-{suite}", of_host(), recipe)
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", INSIDE, "sh", tree, unpacked],
        env={"PATH": _PATH, "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ada@example.org" in done.stdout
    assert done.stdout.splitlines()[-1] == f"/mnt/lib/{PYTHONS[suite]}"


def test_it_builds_an_example(command: Path, images_dir: Path):
    done = run(command, "run", str(CHECKOUT / "examples/hello"), CI_DAEMON_IMAGES_DIR=str(images_dir))
    assert "build #1 passed" in done.stdout, done.stdout + done.stderr


def test_it_names_the_command_that_brings_an_extra(command: Path, tmp_path: Path):
    (unpacked,) = command.parent.glob("ci-daemon-*")
    state = str(tmp_path / "state")
    assert run(command, "--state-dir", state, "init").returncode == 0
    refused = run(command, "--state-dir", state, "serve", CI_DAEMON_TRACING_ENDPOINT="http://127.0.0.1:4318")
    assert refused.returncode == 1
    (install,) = re.findall(r"Install them with (.*), as ci-daemon\[otlp\] does", refused.stderr)
    with_uv = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{_PATH}"}
    subprocess.run(["/bin/sh", "-c", install], env=with_uv, check=True)
    folder = shlex.split(install)[-2]
    assert Path(folder).parent == unpacked / "lib"
    looks = "import sys; sys.path.insert(0, sys.argv[1]); import ci_daemon.tracing.otlp"
    subprocess.run(["/usr/bin/python3", "-Ic", looks, folder], check=True)


def test_without_a_python_it_says_what_to_install(command: Path, tmp_path: Path):
    for program in ("dirname", "readlink"):
        (tmp_path / program).symlink_to(f"/usr/bin/{program}")
    done = run(command, "--version", path=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == (
        "ci-daemon: Python 3.11, 3.12, 3.13 or 3.14 is needed:"
        " install python3 with the package manager of this system\n"
    )


def test_on_another_c_library_it_says_what_to_install(command: Path, tmp_path: Path):
    """The Python here is this system's, with the suffix of that of Alpine."""
    for program in ("dirname", "readlink"):
        (tmp_path / program).symlink_to(f"/usr/bin/{program}")
    python = tmp_path / "python3"
    python.write_text('#!/bin/sh\n/usr/bin/python3 "$@" | /usr/bin/sed s/-gnu/-musl/\n')
    python.chmod(0o755)
    done = run(command, "--version", path=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == (
        "ci-daemon: the compiled parts of this archive are for another processor or C library than python3 of this"
        " system: use the container, or make the archive on such a system\n"
    )
