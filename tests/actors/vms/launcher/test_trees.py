"""Files of the service in a job's disk, which the job may have replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.vms.launcher.trees import write_file


def test_a_file_takes_the_place_of_a_link_and_a_folder(tmp_path: Path):
    (tmp_path / "elsewhere").write_text("mine")
    (tmp_path / "link").symlink_to("elsewhere")
    (tmp_path / "folder" / "below").mkdir(parents=True)
    (tmp_path / "folder" / "below" / "link").symlink_to("../../elsewhere")
    for name in ("link", "folder"):
        write_file(str(tmp_path / name), "ours")
        assert (tmp_path / name).read_text() == "ours"
    assert (tmp_path / "elsewhere").read_text() == "mine"


def test_a_folder_whose_removal_takes_long_is_left(tmp_path: Path):
    """The start of a VM would wait for it."""
    for name, files in (("few", 9_999), ("many", 10_001)):
        (tmp_path / name).mkdir()
        for number in range(files):
            (tmp_path / name / str(number)).touch()
    write_file(str(tmp_path / "few"), "ours")
    with pytest.raises(OSError, match="too long"):
        write_file(str(tmp_path / "many"), "ours")
    assert (tmp_path / "many").is_dir()
