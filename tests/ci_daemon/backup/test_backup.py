from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import threading
from pathlib import Path
from uuid import uuid4

import apsw
import pytest

from ci_daemon.backup import BackupError, backup, backup_to, restore
from storage import (
    DatabaseUnreadable,
    NotInitialized,
    Storage,
    SystemClock,
)
from tests.ci_daemon.backup.state import SOURCE, Host


def everything_below(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_restore_yields_the_same_state(host: Host, tmp_path: Path):
    target, new = tmp_path / "x.backup", tmp_path / "new"
    taken = backup(host.directory, target, configuration=host.directory / "ci-daemon.toml")
    assert target.stat().st_mode & 0o777 == 0o600
    assert taken.verification.manifest.counts["builds"] == 1
    assert taken.left_out == ()
    with target.open("rb") as source:
        restored = restore(source, new)
    verification = restored.verification
    assert verification == taken.verification
    assert (verification.secrets, verification.unfinished, verification.problems) == (1, 1, ())
    assert restored.configuration == new / "ci-daemon.toml"
    files, original = everything_below(new), everything_below(host.directory)
    for name in ("ci-daemon.sqlite3", "ci-daemon.sqlite3-wal", "ci-daemon.sqlite3-shm", "ci-daemon.lock"):
        files.pop(name, None)
        original.pop(name, None)
    assert files == original
    again = Storage.open(new, SystemClock())
    assert again.logs.reader(host.build.uuid, host.job.uuid).read(0, 100) == b"hello\n"
    assert again.builds.env(host.build.id) == {"A": "b"}
    again.close()
    assert {path.stat().st_mode & 0o077 for path in (new, *new.rglob("*")) if path == new or path.is_file()} == {0}


def test_a_growing_log_is_saved_as_far_as_its_index_reaches(host: Host, tmp_path: Path):
    log = host.directory / "logs" / host.build.uuid / host.job.uuid / "1.log"
    with log.open("ab") as file:
        file.write(b"not in the index yet")
    restore(io.BytesIO(host.saved()), tmp_path / "new")
    restored = Storage.open(tmp_path / "new", SystemClock())
    assert restored.logs.reader(host.build.uuid, host.job.uuid).read(0, 100) == b"hello\n"
    restored.close()


def test_a_database_under_writes_is_saved_as_of_one_instant(host: Host, tmp_path: Path):
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            host.storage.users.create(f"{uuid4()}@example.org", "Ann")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        archives = [host.saved() for _ in range(5)]
    finally:
        stop.set()
        writer.join()
    for number, archive in enumerate(archives):
        counted = restore(io.BytesIO(archive), tmp_path / str(number)).verification.manifest.counts["users"]
        with apsw.Connection(str(tmp_path / str(number) / "ci-daemon.sqlite3")) as database:
            assert list(database.execute("SELECT count(*) FROM users")) == [(counted,)]
            assert list(database.execute("SELECT count(*) FROM memberships")) == [(counted + 1,)]


def test_a_source_is_saved_even_if_its_build_ends_meanwhile(host: Host, tmp_path: Path):
    """Progress is first reported while the database is copied; in that copy the build is unfinished."""
    out = io.BytesIO()
    backup_to(host.directory, out, progress=lambda _: host.storage.sources.remove(host.build.uuid))
    restore(io.BytesIO(out.getvalue()), tmp_path / "new")
    assert (tmp_path / "new" / "sources" / f"{host.build.uuid}.tar.gz").read_bytes() == SOURCE
    assert not (host.directory / ".backup").exists()


def test_one_backup_runs_at_a_time_and_removes_orphans(host: Host):
    (host.directory / ".backup").mkdir()
    (host.directory / ".backup" / "ci-daemon.sqlite3").write_bytes(b"left")
    refusals = []

    def interrupt(_: int) -> None:
        with pytest.raises(BackupError, match=r"another backup of .* is being taken: wait until it ends") as refusal:
            host.saved()
        refusals.append(refusal)

    backup_to(host.directory, io.BytesIO(), progress=interrupt)
    assert refusals
    host.saved()


def test_a_backup_appears_whole_or_not_at_all(host: Host, tmp_path: Path):
    def fail(_: int) -> None:
        raise OSError("the disk is full")

    target = tmp_path / "x.backup"
    target.write_bytes(b"yesterday's")
    with pytest.raises(OSError, match="the disk is full"):
        backup(host.directory, target, progress=fail)
    assert target.read_bytes() == b"yesterday's"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["x.backup"]


def test_a_link_where_the_unfinished_file_goes_is_not_followed(host: Host, tmp_path: Path):
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / "x.backup.part").symlink_to(tmp_path / "precious")
    backup(host.directory, tmp_path / "x.backup")
    assert (tmp_path / "precious").read_bytes() == b"precious"


def test_links_in_the_state_directory_lead_nowhere_for_root(host: Host, tmp_path: Path):
    (tmp_path / "shadow").write_bytes(b"a secret of the host")
    (host.directory / "artifacts" / host.build.uuid / str(uuid4())).symlink_to(tmp_path / "shadow")
    (host.directory / "sources" / f"{uuid4()}.tar.gz").symlink_to(tmp_path / "shadow")
    with tarfile.open(fileobj=io.BytesIO(host.saved())) as tar:
        assert len([name for name in tar.getnames() if name.startswith(("artifacts", "sources"))]) == 2
        assert b"a secret of the host" not in gzip.decompress(host.saved())
    log = host.directory / "logs" / host.build.uuid / host.job.uuid / "1.log"
    log.unlink()
    log.symlink_to(tmp_path / "shadow")
    with pytest.raises(BackupError, match=r"a symbolic link or a file is in place of a folder of .*1\.log: remove it"):
        host.saved()


def test_a_backup_with_a_damaged_database_is_refused(host: Host):
    host.storage.close()
    path = host.directory / "ci-daemon.sqlite3"
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(os.urandom(65536))
    with pytest.raises(DatabaseUnreadable):
        host.saved()


def test_a_missing_state_cannot_be_backed_up(tmp_path: Path):
    with pytest.raises(NotInitialized):
        backup(tmp_path / "none", tmp_path / "x.backup")
    assert list(tmp_path.iterdir()) == []


def test_earlier_errors_of_the_ledger_are_reported(host: Host, tmp_path: Path):
    host.storage.close()
    with apsw.Connection(str(host.directory / "ci-daemon.sqlite3")) as database:
        database.execute("UPDATE organizations SET balance_cents = 7 WHERE slug = 'acme'")
    verification = restore(io.BytesIO(host.saved()), tmp_path / "new").verification
    assert [each.organization_slug for each in verification.discrepancies] == ["acme"]


def test_the_manifest_is_the_last_member_and_lists_the_others(host: Host):
    with tarfile.open(fileobj=io.BytesIO(host.saved())) as tar:
        names = tar.getnames()
        manifest = json.loads(tar.extractfile("manifest.json").read())  # type: ignore[union-attr] # it exists
    assert names[-1] == "manifest.json"
    assert set(manifest["members"]) == set(names[:-1])
    assert manifest["state_dir"] == str(host.directory)
