"""The first root of a machine, as a cpio program reads it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from actors.vms.host.boot import archive
from tests.programs import unpacked_program


def test_a_cpio_program_unpacks_files_and_folders(tmp_path: Path):
    made = archive({"init": b"#!/bin/sh\n", "a/b/file": b"x" * 5}, ["dev"])
    argv = [unpacked_program("busybox"), "cpio", "-id"]
    subprocess.run(argv, input=made, cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "a/b/file").read_bytes() == b"x" * 5
    assert (tmp_path / "init").stat().st_mode & 0o777 == 0o755
    assert list((tmp_path / "dev").iterdir()) == []
