"""Files of other jobs and kept folders: laid into the workspace and root's home, and packed again."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.vms import Connection, LaidFile, fingerprint_of, in_job, lay_files, lay_folder, pack_folder
from tests.actors.vms.commands import TIMEOUT


@pytest.mark.real
@pytest.mark.essential
def test_files_are_laid_and_folders_kept(connection: Connection, tmp_path: Path):
    """The job sees them as its own, with their modes; a folder is laid where nothing is yet."""
    file = tmp_path / "file"
    file.write_text("echo laid")
    laid = [LaidFile("out/tool", 9, executable=True, file=file), LaidFile("out/text", 9, executable=False, file=file)]
    lay_files(connection, laid, time=1_500_000_000, timeout=TIMEOUT)
    fingerprint = fingerprint_of(connection, "out", timeout=TIMEOUT)
    tar = list(pack_folder(connection, "out", most_files=10, most_bytes=1 << 20, timeout=TIMEOUT))
    assert lay_folder(connection, "~/.cache/tools", tar, timeout=TIMEOUT)
    assert not lay_folder(connection, "out", tar, timeout=TIMEOUT)
    assert fingerprint is not None
    assert fingerprint_of(connection, "~/.cache/tools", timeout=TIMEOUT) == fingerprint
    program = "cd ~/.cache/tools && ./tool && stat -c '%a %U %Y' tool text && /workspace/out/tool"
    done = connection.run(in_job(program), timeout=TIMEOUT)
    assert done.stdout.decode().splitlines() == ["laid", "755 root 1500000000", "644 root 1500000000", "laid"]
