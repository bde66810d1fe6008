"""Restoring a backup: damaged, incomplete and foreign ones are refused."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from ci_daemon.backup import BackupError, restore
from ci_daemon.host.lock import AlreadyServed
from storage import (
    KeyUnreadable,
    SchemaTooNew,
    SealBroken,
    Storage,
    SystemClock,
)
from tests.ci_daemon.backup.state import Host
from tests.processes import ended


def repacked(
    archive: bytes, change: Callable[[tarfile.TarInfo, bytes], Iterator[tuple[tarfile.TarInfo, bytes]]]
) -> bytes:
    """Return an archive with each member replaced by the members that ``change`` yields."""
    out = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as old,
        tarfile.open(fileobj=out, mode="w:gz") as new,
    ):
        for member in old:
            file = old.extractfile(member)
            assert file is not None
            for header, content in change(member, file.read()):
                header.size = len(content) if header.isreg() else 0
                new.addfile(header, io.BytesIO(content))
    return out.getvalue()


def test_without_the_key_the_right_one_has_to_be_given(host: Host, tmp_path: Path):
    archive, new, key = host.saved(with_key=False), tmp_path / "new", host.directory / "secret.key"
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert "secret.key" not in tar.getnames()
    with pytest.raises(BackupError, match="does not contain its key: give the key with --key FILE"):
        restore(io.BytesIO(archive), new)
    other = tmp_path / "other"
    Storage.create(other, SystemClock()).close()
    with pytest.raises(BackupError, match="the key does not belong to this backup"):
        restore(io.BytesIO(archive), new, key=other / "secret.key")
    assert not new.exists()
    assert restore(io.BytesIO(archive), new, key=key).verification.secrets == 1
    assert (new / "secret.key").stat().st_mode & 0o777 == 0o600


def test_a_backup_without_the_key_needs_the_right_key(host: Host, tmp_path: Path):
    """Secrets open_all that the key given at the restore is the right one; only the service had it."""
    key, other = tmp_path / "secret.key", tmp_path / "other"
    (host.directory / "secret.key").rename(key)
    with pytest.raises(KeyUnreadable):
        host.saved()
    archive = host.saved(with_key=False)
    Storage.create(other, SystemClock()).close()
    with pytest.raises(SealBroken, match="the secret TOKEN cannot be decrypted"):
        restore(io.BytesIO(archive), tmp_path / "new", key=other / "secret.key")
    assert not (tmp_path / "new").exists()
    assert restore(io.BytesIO(archive), tmp_path / "new", key=key).verification.secrets == 1


def test_cut_off_anywhere_it_is_refused_and_nothing_stays(host: Host, tmp_path: Path):
    archive = host.saved()
    for length in [*range(0, len(archive), len(archive) // 25), len(archive) - 1, len(archive) - 9]:
        with pytest.raises(BackupError, match="truncated"):
            restore(io.BytesIO(archive[:length]), tmp_path / "new")
        assert not (tmp_path / "new").exists()


def test_a_changed_bit_is_refused_or_changes_nothing(host: Host, tmp_path: Path):
    """In a run of zeros, a changed bit may leave the uncompressed bytes as they are, which does no harm."""
    archive, refused = host.saved(), 0
    for position in range(10, len(archive), len(archive) // 40):
        changed = bytearray(archive)
        changed[position] ^= 0x10
        new = tmp_path / str(position)
        try:
            restore(io.BytesIO(bytes(changed)), new)
        except BackupError:
            refused += 1
            assert not new.exists()
        else:
            assert (new / "artifacts" / host.build.uuid).is_dir()
    assert refused > 30


@pytest.mark.parametrize("kind", ["logs", "artifacts", "sources", "secret.key", "ci-daemon.toml"])
def test_a_file_that_is_another_or_missing_is_named(host: Host, tmp_path: Path, kind: str):
    def changed(header: tarfile.TarInfo, content: bytes) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
        yield header, content + b"!" if header.name.startswith(kind) else content

    def gone(header: tarfile.TarInfo, content: bytes) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
        if not header.name.startswith(kind):
            yield header, content

    for change in (changed, gone):
        with pytest.raises(BackupError, match=f"^{kind}.* in it differs from the manifest"):
            restore(io.BytesIO(repacked(host.saved(), change)), tmp_path / "new")


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("../../etc/cron.d/x", tarfile.REGTYPE, "which this release does not know"),
        ("/etc/passwd", tarfile.REGTYPE, "which this release does not know"),
        ("logs/../../x", tarfile.REGTYPE, "which this release does not know"),
        ("ci-daemon.lock", tarfile.REGTYPE, "which this release does not know"),
        ("secret.key", tarfile.REGTYPE, "which this release does not know"),
        ("logs", tarfile.SYMTYPE, "not a regular file"),
        ("secret.key", tarfile.LNKTYPE, "not a regular file"),
        ("artifacts", tarfile.DIRTYPE, "not a regular file"),
        ("null", tarfile.CHRTYPE, "not a regular file"),
        ("pipe", tarfile.FIFOTYPE, "not a regular file"),
    ],
)
def test_what_a_backup_never_holds_is_not_unpacked(host: Host, tmp_path: Path, name: str, kind: bytes, message: str):
    def with_it(header: tarfile.TarInfo, content: bytes) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
        yield header, content
        if header.name == "secret.key":
            foreign = tarfile.TarInfo(name)
            foreign.type, foreign.linkname = kind, "/etc/passwd"
            yield foreign, b"x" if kind == tarfile.REGTYPE else b""

    with pytest.raises(BackupError, match=message):
        restore(io.BytesIO(repacked(host.saved(), with_it)), tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old"]


def test_a_file_larger_than_the_disk_is_refused_unwritten(host: Host, tmp_path: Path):
    header = tarfile.TarInfo("ci-daemon.sqlite3")
    header.size = 2**55
    archive = gzip.compress(header.tobuf(tarfile.PAX_FORMAT) + bytes(2**20))
    with pytest.raises(BackupError, match=r"ci-daemon.sqlite3 has \d+ bytes, but .* has \d+ free: free some"):
        restore(io.BytesIO(archive), tmp_path / "new")


def test_what_follows_the_manifest_is_refused(host: Host, tmp_path: Path):
    def and_more(header: tarfile.TarInfo, content: bytes) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
        yield header, content
        if header.name == "manifest.json":
            yield tarfile.TarInfo("ci-daemon.toml"), b""

    with pytest.raises(BackupError, match="after the manifest"):
        restore(io.BytesIO(repacked(host.saved(), and_more)), tmp_path / "new")
    with pytest.raises(BackupError, match="continues after its end"):
        restore(io.BytesIO(host.saved() + gzip.compress(bytes(2**22))), tmp_path / "new")


def test_a_newer_releases_backup_is_refused(host: Host, tmp_path: Path):
    host.storage.close()
    newer = tmp_path / "newer.sqlite3"

    def changed(header: tarfile.TarInfo, content: bytes) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
        if header.name == "ci-daemon.sqlite3":
            newer.write_bytes(content)
            with closing(apsw.Connection(str(newer))) as database:
                database.execute("PRAGMA user_version = 9999")
            content = newer.read_bytes()
        if header.name == "manifest.json":
            document, database_now = json.loads(content), newer.read_bytes()
            digest = hashlib.sha256(database_now).hexdigest()
            document["members"]["ci-daemon.sqlite3"] = {"bytes": len(database_now), "sha256": digest}
            content = json.dumps(document).encode()
        yield header, content

    with pytest.raises(SchemaTooNew, match="run the newer release"):
        restore(io.BytesIO(repacked(host.saved(), changed)), tmp_path / "new")
    assert not (tmp_path / "new").exists()
    with apsw.Connection(str(host.directory / "ci-daemon.sqlite3")) as database:
        database.execute("PRAGMA user_version = 9999")
    with pytest.raises(SchemaTooNew, match="run the newer release"):
        host.saved()


def test_a_restore_accepts_images_and_a_configuration_only(host: Host, tmp_path: Path):
    archive, new = host.saved(), tmp_path / "new"
    (new / "images").mkdir(parents=True)
    (new / ".restoring" / "logs").mkdir(parents=True)  # left by a restore that was killed
    (new / "ci-daemon.toml").write_text("# mine")
    (new / "thesis.tex").write_text("")
    with pytest.raises(BackupError, match=r"contains thesis.tex: move the directory away with `mv .*new .*new\.old`"):
        restore(io.BytesIO(archive), new)
    (new / "thesis.tex").unlink()
    assert restore(io.BytesIO(archive), new).configuration == new / "ci-daemon.toml.from-backup"
    assert (new / "ci-daemon.toml").read_text() == "# mine"
    assert (new / "ci-daemon.toml.from-backup").read_text() == "[pool]\nparked = 1\n"
    with pytest.raises(BackupError, match="contains artifacts and more"):
        restore(io.BytesIO(archive), new)


def test_files_restored_by_root_get_the_directorys_owner(host: Host, tmp_path: Path):
    new = tmp_path / "new"
    new.mkdir()
    if os.geteuid() == 0:
        os.chown(new, 4242, 4243)
    restore(io.BytesIO(host.saved()), new)
    owners = {(path.lstat().st_uid, path.lstat().st_gid) for path in (new, *new.rglob("*"))}
    assert owners == {(new.stat().st_uid, new.stat().st_gid)}


def test_where_a_service_runs_nothing_is_restored(host: Host, tmp_path: Path):
    """Another process serves, because a lock never excludes the process that holds it."""
    new = tmp_path / "new"
    new.mkdir()
    program = "import sys; from pathlib import Path; from ci_daemon.host.lock import serving\n"
    program += f"with serving(Path({str(new)!r})): print('serves', flush=True); sys.stdin.read()"
    with ended(
        subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"serves\n"
        with pytest.raises(AlreadyServed, match=r"serves .* already: stop it first"):
            restore(io.BytesIO(host.saved()), new)
        other.communicate()
