"""`.ci/venv` and `.ci/host` on minimal machines, with only the programs that a test puts on the PATH."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent.parent / ".ci" / "venv"

OLD = "exit 1"
INSTALL = "install -y -qq --no-install-recommends python3.11-venv"
WITHOUT_VENV = 'case "$2" in *ensurepip*) exit 1 ;; *%d.%d*) echo python3.11-venv ;; esac'
MAKES_VENV = """
case "$*" in
*"-m venv"*)
    for last; do :; done
    echo "$PWD" >>venvs
    mkdir -p "$last/bin" "$last/lib/python3/site-packages/pygments/lexers" "$last/lib/python3/site-packages/dns"
    echo "#!$PWD/$last/bin/python" >"$last/bin/ci-daemon" ;;
*"import ensurepip, glob"*) echo bundled/pip.whl ;;
*"pip.whl/pip install"*)
    echo "$*" >>installed
    mkdir -p .venv.tools/bin
    printf '#!/bin/sh\\necho "uv $*" >>installed\\nexit $(cat uv-fails 2>/dev/null)\\n' >.venv.tools/bin/uv
    chmod 755 .venv.tools/bin/uv ;;
*"pip.whl/pip --python"*) echo "$*" >>installed ;;
esac
"""


@dataclass
class Machine:
    """A machine with only the given programs."""

    root: Path

    def has(self, program: str, script: str) -> None:
        path = self.root / "bin" / program
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def set_up(self, *lock: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", str(SCRIPT), ".venv", *lock],
            cwd=self.root,
            env={"PATH": str(self.root / "bin")},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path / "machine")
    machine.has("id", "echo 1000")
    for program in ("cat", "chmod", "cut", "find", "grep", "mkdir", "rm"):
        machine.has(program, f'exec {shutil.which(program)} "$@"')
    return machine


def test_an_old_python_is_an_error_with_the_command_to_run(machine: Machine):
    machine.has("python3", OLD)
    done = machine.set_up()
    assert done.returncode == 1
    assert done.stderr == (
        "Python 3.11 or newer is needed and python3 is older: "
        "run `sudo apt-get install -y python3.11 python3.11-venv`, then this again\n"
    )


def test_a_missing_python_is_an_error_with_the_package_name(machine: Machine):
    """The package is that of the distribution's release."""
    done = machine.set_up()
    assert done.returncode == 1
    assert done.stderr == "python3 is not installed: run `sudo apt-get install -y python3`, then this again\n"


def test_a_python_without_venv_is_reported_with_the_package(machine: Machine):
    machine.has("python3", WITHOUT_VENV)
    done = machine.set_up()
    assert done.returncode == 1
    assert "python3 has no venv module: run `sudo apt-get install -y python3.11-venv`" in done.stderr


def test_root_updates_old_lists_and_installs_missing_packages(machine: Machine):
    machine.has("id", "echo 0")
    machine.has("python3", WITHOUT_VENV)
    machine.has("apt-get", 'echo "$*" >>apt; case "$1" in update) exit 0 ;; esac; exit 1')
    assert machine.set_up().returncode != 0
    asked = (machine.root / "apt").read_text().splitlines()
    assert asked == [INSTALL, "update -qq", INSTALL]


def installed(machine: Machine) -> list[str]:
    """Return the commands of installers."""
    return (machine.root / "installed").read_text().splitlines()


def test_an_environment_is_made_once_and_updated_each_time(machine: Machine):
    machine.has("python3", MAKES_VENV)
    for _ in range(2):
        done = machine.set_up("requirements/run.txt")
        assert done.returncode == 0, done.stderr
        fetched, locked, own = installed(machine)
        assert fetched.endswith("--require-hashes --target .venv.tools --requirement requirements/build.txt")
        assert locked.endswith("pip sync --python .venv/bin/python --require-hashes requirements/run.txt")
        assert own.endswith("pip install --python .venv/bin/python --no-build-isolation --no-deps --editable .")
        assert not (machine.root / ".venv/lib/python3/site-packages/dns").exists()
        (machine.root / "installed").unlink()
        assert not (machine.root / ".venv.tools").exists()
    assert (machine.root / "venvs").read_text().splitlines() == [str(machine.root)]


def test_without_a_lock_the_newest_packages_are_installed(machine: Machine):
    machine.has("python3", MAKES_VENV)
    assert machine.set_up().returncode == 0
    assert installed(machine)[-1].endswith("--upgrade --editable .[dev,otlp]")


def test_pip_installs_where_uv_cannot(machine: Machine):
    machine.has("python3", MAKES_VENV)
    (machine.root / "uv-fails").write_text("2")
    done = machine.set_up("requirements/run.txt")
    assert done.returncode == 0, done.stderr
    locked, own = installed(machine)[-2:]
    assert locked.endswith("install --quiet --require-hashes --no-deps --requirement requirements/run.txt")
    assert own.endswith("install --quiet --no-deps --editable .")
    assert "uv is not to be had here" in done.stdout
    assert not (machine.root / ".venv/lib/python3/site-packages/dns").exists()


def test_a_checkout_that_was_moved_gets_another(machine: Machine, tmp_path: Path):
    machine.has("python3", MAKES_VENV)
    assert machine.set_up().returncode == 0
    machine.root = machine.root.rename(tmp_path / "moved")
    assert machine.set_up().returncode == 0
    assert (machine.root / "venvs").read_text().splitlines() == [str(tmp_path / "machine"), str(tmp_path / "moved")]


def test_unavailable_packages_are_reported_last(machine: Machine):
    machine.has("python3", MAKES_VENV.replace('echo "$*" >>installed', "exit 1"))
    done = machine.set_up()
    assert done.returncode == 1
    assert done.stderr.startswith("pip cannot install the Python packages, and says why above: ")
    assert done.stderr.endswith(" mend that, then run this again\n")


def test_what_vms_need_is_asked_for_at_once(machine: Machine):
    machine.has("python3", WITHOUT_VENV)
    done = subprocess.run(
        ["/bin/sh", str(SCRIPT.with_name("host")), "vms"],
        env={"PATH": str(machine.root / "bin")}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == (
        "python3 has no venv module, and the image of VMs cannot be made, and ids of VMs cannot be mapped,"
        " and VMs have no network: run `sudo apt-get install -y python3.11-venv"
        " mmdebstrap uidmap slirp4netns`, then this again\n"
    )
