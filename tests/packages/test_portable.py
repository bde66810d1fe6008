"""The portable archive, unpacked in a folder with a space in its name. `make portable` has made it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


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


def test_it_builds_an_example(command: Path, images_dir: Path):
    done = run(command, "run", str(CHECKOUT / "examples/hello"), CI_DAEMON_IMAGES_DIR=str(images_dir))
    assert "build #1 passed" in done.stdout, done.stdout + done.stderr


def test_without_a_python_it_says_what_to_install(command: Path, tmp_path: Path):
    for program in ("dirname", "readlink"):
        (tmp_path / program).symlink_to(f"/usr/bin/{program}")
    done = run(command, "--version", path=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == (
        "ci-daemon: Python 3.11, 3.12, 3.13 or 3.14 is needed:"
        " install python3 with the package manager of this system\n"
    )
