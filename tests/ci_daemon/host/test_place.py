"""A state directory knows whether it is a copy, and stays itself where it is only moved."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ci_daemon.host.place import StateCopied, check_place, claim_place, discard_vms, is_copy


@pytest.fixture
def state(tmp_path: Path) -> Path:
    state = tmp_path / "state"
    state.mkdir()
    claim_place(state, "ci")
    return state


def test_a_copy_knows_that_it_is_one_until_it_is_claimed(state: Path, tmp_path: Path):
    copy = Path(shutil.copytree(state, tmp_path / "copy"))
    assert (is_copy(state), is_copy(copy)) == (False, True)
    with pytest.raises(StateCopied, match="ci-daemon claim"):
        check_place(copy)
    claim_place(copy, "ci")
    assert not is_copy(copy)


def test_a_moved_directory_and_an_older_release_s_are_no_copies(state: Path, tmp_path: Path):
    moved = state.rename(tmp_path / "moved")
    assert not is_copy(moved)
    assert not is_copy(tmp_path)


def test_the_same_inode_on_another_device_is_a_copy(state: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ci_daemon.host.place.boot_id", lambda: "the next")
    assert not is_copy(state)
    claim_place(state, "ci")
    path = state / "ci-daemon.place"
    path.write_text(path.read_text().replace('"device": ', '"device": 9'))
    assert is_copy(state)


def test_a_copy_forgets_vms_of_every_provider(state: Path):
    for vm in ("sandbox/vms/a", "qemu/vms/b"):
        (state / vm / "part").mkdir(parents=True)
    assert discard_vms(state) == 2
    assert list(state.glob("*/vms/*")) == []
