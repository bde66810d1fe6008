"""A release by its one command, in a clone of this checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
AUTHOR = {f"GIT_{role}_{what}": "ada@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


@pytest.fixture
def key(tmp_path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    return tmp_path / "key"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    subprocess.run(["git", "clone", "-q", CHECKOUT, tmp_path / "clone"], check=True)
    return tmp_path / "clone"


def release(clone: Path, version: str, **environ: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **AUTHOR, "VENV": sys.prefix, "ARTIFACTS": "", **environ}
    return subprocess.run(
        [clone / ".ci/release", version], env=environment, capture_output=True, text=True, check=False, timeout=900
    )


def git(clone: Path, *arguments: str) -> str:
    return subprocess.check_output(["git", *arguments], cwd=clone, text=True).strip()


def test_a_release_is_tagged_and_its_checksums_are_signed(clone: Path, key: Path):
    done = release(clone, "97.0.0", RELEASE_KEY=str(key))
    assert done.returncode == 0, done.stdout + done.stderr
    assert git(clone, "log", "-1", "--format=%s") == "Release 97.0.0"
    assert git(clone, "rev-parse", "97.0.0^{commit}") == git(clone, "rev-parse", "HEAD")
    assert "-----BEGIN SSH SIGNATURE-----" in git(clone, "cat-file", "tag", "97.0.0")
    assert re.search(r"^## 97\.0\.0, \d{4}-\d\d-\d\d$", (clone / "CHANGELOG.md").read_text(), re.MULTILINE)
    made = clone / "dist/97.0.0"
    assert {each.name for each in made.iterdir()} == {
        "ci_daemon-97.0.0-py3-none-any.whl",
        "ci_daemon-97.0.0.tar.gz",
        "SHA256SUMS",
        "SHA256SUMS.sig",
    }
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=made, check=True)
    check = ["ssh-keygen", "-Y", "check-novalidate", "-n", "file", "-s", made / "SHA256SUMS.sig"]
    subprocess.run(check, input=(made / "SHA256SUMS").read_bytes(), check=True)
    assert "97.0.0 has been released" in release(clone, "97.0.0", RELEASE_KEY=str(key)).stderr


def test_a_release_that_is_refused_leaves_nothing(clone: Path, key: Path):
    before = git(clone, "rev-parse", "HEAD")
    assert "set RELEASE_KEY to the file of the SSH key" in release(clone, "97.0.0").stderr
    assert "give the version" in release(clone, "97", RELEASE_KEY=str(key)).stderr
    (clone / "LICENSE").write_text("")
    assert "changes that are not committed" in release(clone, "97.0.0", RELEASE_KEY=str(key)).stderr
    git(clone, "checkout", "LICENSE")
    (clone / "setup.cfg").write_text((clone / "setup.cfg").read_text().replace("falcon >= 4.0", "falcon >= 4.0, < 4.4"))
    git(clone, "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "-qam", "Bound falcon")
    assert "the locks do not fit setup.cfg" in release(clone, "97.0.0", RELEASE_KEY=str(key)).stderr
    assert git(clone, "rev-parse", "HEAD~1") == before
    assert git(clone, "tag", "--list", "97.0.0") == ""
    assert not (clone / "dist").exists()
