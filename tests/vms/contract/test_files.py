"""Files of other jobs and kept folders: laid into the workspace and root's home, and packed again."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from actors.vms import (
    Connection,
    FileBytes,
    FilesNotLaid,
    LaidFile,
    fingerprint_of,
    in_job,
    in_workspace,
    lay_files,
    lay_folder,
    pack_folder,
)
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
    [*tar] = pack_folder(connection, "out", most_files=10, most_bytes=1 << 20, timeout=TIMEOUT)
    assert lay_folder(connection, "~/.cache/tools", tar, timeout=TIMEOUT)
    assert not lay_folder(connection, "out", tar, timeout=TIMEOUT)
    assert fingerprint is not None
    assert fingerprint_of(connection, "~/.cache/tools", timeout=TIMEOUT) == fingerprint
    program = "cd ~/.cache/tools && ./tool && stat -c '%a %U %Y' tool text && /workspace/out/tool"
    done = connection.run(in_job(program), timeout=TIMEOUT)
    assert done.stdout.decode().splitlines() == ["laid", "755 root 1500000000", "644 root 1500000000", "laid"]


@pytest.mark.real
@pytest.mark.essential
def test_much_data_goes_in_and_out(connection: Connection, tmp_path: Path):
    """Files of the host stand among bytes; the errors and the exit code come back."""
    file = tmp_path / "file"
    file.write_bytes(os.urandom(5_000_000))
    sent = [b"first", FileBytes(file, 5_000_000), b"last"]
    program = in_workspace("tee copy; echo wrong >&2; exit 7")
    with connection.transfer(program, stdin=sent, timeout=TIMEOUT) as stream:
        done = stream.complete(6_000_000)
    whole = b"first" + file.read_bytes() + b"last"
    assert (done.exit_code, done.stdout, done.stderr) == (7, whole, b"wrong\n")
    copied = connection.run(in_job("sha256sum /workspace/copy"), timeout=TIMEOUT)
    assert copied.stdout.split()[0].decode() == hashlib.sha256(whole).hexdigest()


@pytest.mark.real
def test_what_a_job_left_redirects_no_transfer(connection: Connection, tmp_path: Path):
    """A link out of the workspace is not followed, and no program of the job's disk is run."""
    replaced = "ln -s /etc /workspace/etc; ln -s /root/.cache /workspace/cache; mkdir -p /root/.cache"
    fakes = "for each in tar sh mv; do ln -sf /bin/false /usr/local/sbin/$each; done"
    assert connection.run(in_job(f"{replaced}; {fakes}"), timeout=TIMEOUT).exit_code == 0
    file = tmp_path / "file"
    file.write_text("laid")
    for path in ("etc/laid", "cache/laid"):
        with pytest.raises(FilesNotLaid):
            lay_files(connection, [LaidFile(path, 4, executable=False, file=file)], time=0, timeout=TIMEOUT)
    lay_files(connection, [LaidFile("there/laid", 4, executable=False, file=file)], time=0, timeout=TIMEOUT)
    found = connection.run(in_job("cat /workspace/there/laid; ls /etc/laid /root/.cache/laid"), timeout=TIMEOUT)
    assert found.stdout == b"laid"
