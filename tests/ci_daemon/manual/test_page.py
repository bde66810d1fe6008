"""The manual page and the reference, made from the help."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ci_daemon.command.support.catalog import lines
from ci_daemon.command.support.exit_codes import MEANINGS, ExitCode
from tests.programs import unpacked_program

CHECKOUT = Path(__file__).parents[3]
SHARED = {
    "man/man1/ci-daemon.1",
    "bash-completion/completions/ci-daemon",
    "zsh/site-functions/_ci-daemon",
    "fish/vendor_completions.d/ci-daemon.fish",
}


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that packages install below /usr/share."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    subprocess.run([sys.executable, "-m", "ci_daemon.manual", tmp_path], check=True, cwd=CHECKOUT)
    return tmp_path


def test_the_manual_page_is_whole_and_without_faults(shared: Path):
    assert {str(each.relative_to(shared)) for each in shared.rglob("*") if each.is_file()} == SHARED
    page = (shared / "man/man1/ci-daemon.1").read_text()
    assert page.startswith(".TH CI\\-DAEMON 1 2023-11-14 ")
    for words in lines():
        assert f'.SS "ci\\-daemon {words.replace("-", chr(92) + "-")}"' in page
    checking = [unpacked_program("mandoc"), "-Tlint", "-Wwarning"]
    done = subprocess.run([*checking, shared / "man/man1/ci-daemon.1"], check=False, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_every_exit_code_has_a_meaning():
    assert set(MEANINGS) == set(ExitCode)


def test_examples_keep_their_lines_in_the_manual_and_in_the_docs(shared: Path):
    page = (shared / "man/man1/ci-daemon.1").read_text()
    assert "\n.nf\nci\\-daemon run  " in page
    docs = (CHECKOUT / "docs/commands.md").read_text()
    assert "\n    ci-daemon run --shell test  " in docs
    assert r"\b " not in docs
