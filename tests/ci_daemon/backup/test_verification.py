"""A backup is verified while it is taken, as a restore would read it; one that fails is not kept."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from ci_daemon.backup import BackupError, backup, backup_to, restore, undeclared_files
from ci_daemon.command import main
from storage import (
    FILE_KINDS,
    DatabaseUnreadable,
    NewBuild,
    SealBroken,
    SecretScope,
    Storage,
    SystemClock,
    Vault,
)
from storage.database.schema import Migration, migrations
from tests.processes import ended
from tests.records import new_pipeline
from tests.state import new_storage
from tests.storage.world import World

RENDER = "render"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def world(directory: Path) -> Iterator[World]:
    storage = new_storage(directory, SystemClock())
    pipeline = new_pipeline(storage)
    yield World(storage, SystemClock(), pipeline)  # type: ignore[arg-type] # no test advances it
    storage.close()


def archive_of(directory: Path) -> bytes:
    out = io.BytesIO()
    backup_to(directory, out)
    return out.getvalue()


def everything_below(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_the_log_of_a_rendering_is_returned(world: World, directory: Path, tmp_path: Path):
    build = world.storage.renders.begin(world.pipeline, NewBuild("main", "c0ffee"), "https://example.org/x.tar")
    with world.storage.logs.writer(build.uuid, RENDER, 1) as log:
        log.output(b"printed by the pipeline file\n")
    world.storage.renders.refuse(build.id, "render_failed", "no pipelines")
    restore(io.BytesIO(archive_of(directory)), tmp_path / "new")
    with_it = Storage.open(tmp_path / "new", SystemClock())
    assert with_it.logs.reader(build.uuid, RENDER).read(0, 100) == b"printed by the pipeline file\n"
    with_it.close()


def test_no_file_is_written_by_an_undeclared_name(world: World):
    with pytest.raises(ValueError, match=r"does not match \{build\}/\{job\}/\{attempt\}.log"):
        world.storage.logs.writer("build", "../escape", 1)


def test_a_kind_of_file_that_restore_refuses_is_not_saved(
    world: World, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Simulates restore code that disagrees with the declaration of the stored files."""
    world.build(source_archive=b"an archive")
    monkeypatch.setattr("ci_daemon.backup.verification.is_saved", lambda path: not path.startswith("sources/"))
    message = r"cannot be restored, so it was deleted: it contains sources/.*, which this release does not know"
    with pytest.raises(BackupError, match=message):
        backup(directory, tmp_path / "x.backup")
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_a_file_damaged_on_its_way_to_the_disk_is_not_kept(world: World, directory: Path, tmp_path: Path):
    part = tmp_path / "x.backup.part"

    def damage(_bytes: int) -> None:
        if part.exists() and part.stat().st_size > 2000:
            with part.open("r+b") as file:
                file.seek(1000)
                file.write(b"\0" * 8)

    world.build(source_archive=os.urandom(2**20))
    with pytest.raises(BackupError, match="cannot be restored, so it was deleted: it "):
        backup(directory, tmp_path / "x.backup", progress=damage)
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_a_stream_that_fails_ends_without_manifest(world: World, directory: Path, tmp_path: Path):
    world.storage.secrets.put(_scope(world), "TOKEN", "hush")
    (directory / "secret.key").unlink()
    Vault.create(directory / "secret.key")
    out = io.BytesIO()
    with pytest.raises(SealBroken, match="the secret TOKEN cannot be decrypted"):
        backup_to(directory, out)
    assert out.tell() > 0
    with pytest.raises(BackupError, match="truncated"):
        restore(io.BytesIO(out.getvalue()), tmp_path / "new")
    assert not (directory / ".backup").exists()


def test_an_early_end_of_verification_raises_its_reason(
    world: World, directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The archive is larger than a pipe's buffer, so that writing continues after the verification."""
    world.build(source_archive=os.urandom(2**22))
    monkeypatch.setattr("ci_daemon.backup.verification.is_saved", lambda path: path != "secret.key")
    with pytest.raises(BackupError, match=r"cannot be restored, so it was left unfinished: it contains secret\.key"):
        archive_of(directory)


def test_the_command_says_that_it_is_verified_or_fails(
    world: World, directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "x.backup"
    world.storage.secrets.put(_scope(world), "TOKEN", "hush")
    assert main(["--state-dir", str(directory), "backup", str(file), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["proved"], document["secrets"], document["left_out"], document["missing"]) == (True, 1, [], [])
    file.unlink()
    (directory / "secret.key").unlink()
    Vault.create(directory / "secret.key")
    assert main(["--state-dir", str(directory), "backup", str(file)]) == 1
    assert "the secret TOKEN cannot be decrypted with secret.key" in capsys.readouterr().err
    assert not file.exists()


def test_without_the_key_it_is_verified_by_the_one_that_is_here(world: World, directory: Path, tmp_path: Path):
    world.storage.secrets.put(_scope(world), "TOKEN", "hush")
    assert backup(directory, tmp_path / "x", with_key=False).verification.secrets == 1
    (directory / "secret.key").rename(tmp_path / "secret.key")
    assert backup(directory, tmp_path / "x", with_key=False).verification.secrets is None


def test_files_that_nothing_declares_are_named(world: World, directory: Path, tmp_path: Path):
    build = world.build(source_archive=b"an archive")
    (directory / "sources" / f"{build.uuid}.summary").write_bytes(b"of a release to come")
    os.mkfifo(directory / "logs" / "pipe")
    (directory / "artifacts" / os.fsdecode(b"odd\xff\n\x1b[31m")).write_bytes(b"")
    (directory / "images").mkdir()
    (directory / "images" / "anything").write_bytes(b"")
    taken = backup(directory, tmp_path / "x.backup")
    assert sorted(taken.left_out) == sorted(undeclared_files(directory))
    assert len(taken.left_out) == 3
    done = subprocess.run(
        [sys.executable, "-m", "ci_daemon", "--state-dir", str(directory), "backup", str(tmp_path / "y")],
        capture_output=True,
        check=True,
    )
    assert b"NOT included, because the service does not know it" in done.stdout
    assert b"\x1b" not in done.stdout


def test_an_attempt_begun_after_the_instant_is_not_in_it(world: World, directory: Path, tmp_path: Path):
    """The job starts again, and its output would otherwise follow another command's in the same log."""
    build = world.build()
    job = world.job(build)

    def begin(_bytes: int) -> None:
        with world.storage.logs.writer(build.uuid, job.uuid, 1) as log:
            log.output(b"too late\n")

    out = io.BytesIO()
    backup_to(directory, out, progress=begin)
    restore(io.BytesIO(out.getvalue()), tmp_path / "new")
    assert everything_below(tmp_path / "new" / "logs") == []


def test_artifacts_that_expire_meanwhile_are_saved(world: World, directory: Path, tmp_path: Path):
    build = world.build()
    job = world.job(build)
    lease = world.start(job)
    files = world.storage.artifacts.files
    world.storage.artifacts.store(build, job, [files.write(build.uuid, "report", [b"a report"])])
    world.finish(job, lease)
    world.finish_build(build)
    out = io.BytesIO()
    taken = backup_to(directory, out, progress=lambda _: files.remove_build(build.uuid))
    assert taken.verification.missing == ()
    restore(io.BytesIO(out.getvalue()), tmp_path / "new")
    assert len(everything_below(tmp_path / "new" / "artifacts")) == 1


def test_a_file_lost_before_is_reported_and_no_obstacle(
    world: World, directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    build = world.build(source_archive=b"an archive")
    world.storage.sources.path(build.uuid).unlink()
    assert main(["--state-dir", str(directory), "backup", str(tmp_path / "x")]) == 0
    wrong = f"WRONG before the backup was taken: sources/{build.uuid}.tar.gz is missing"
    assert wrong in capsys.readouterr().out
    assert main(["--state-dir", str(tmp_path / "new"), "restore", str(tmp_path / "x")]) == 1
    assert wrong in capsys.readouterr().out


def test_a_folder_that_is_a_link_leads_nowhere(world: World, directory: Path, tmp_path: Path):
    """Root may back up a directory that belongs to another user."""
    build = world.build()
    job = world.job(build)
    world.start(job)
    files = world.storage.artifacts.files
    new = files.write(build.uuid, "report", [b"a report"])
    world.storage.artifacts.store(build, job, [new])
    folder = files.path(build.uuid, new.uuid).parent
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BackupError, match="a symbolic link or a file is in place of a folder of"):
        archive_of(directory)
    assert not (directory / ".backup").exists()


def test_a_pipe_in_place_of_a_file_is_not_waited_for(world: World, directory: Path):
    build = world.build(source_archive=b"an archive")
    path = world.storage.sources.path(build.uuid)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(BackupError, match="is not a regular file: remove it"):
        archive_of(directory)


def test_an_older_schema_is_saved_as_it_is(world: World, directory: Path, monkeypatch: pytest.MonkeyPatch):
    """A newer release takes the backup before it has ever served."""
    world.build(source_archive=b"an archive")
    newest = migrations()
    step = Migration(newest[-1].number + 1, "next.sql", "CREATE TABLE newer (uuid TEXT)")
    for module in ("storage.database.schema", "storage.copying", "storage.store"):
        monkeypatch.setattr(f"{module}.migrations", lambda: [*newest, step])
    kinds = [
        replace(kind, rows=kind.rows and f"{kind.rows} AND NOT EXISTS (SELECT 1 FROM newer)") for kind in FILE_KINDS
    ]
    for module in ("contents", "verification", "taking"):
        monkeypatch.setattr(f"ci_daemon.backup.{module}.FILE_KINDS", kinds)
    taken = backup(directory, directory.with_name("x"))
    assert taken.verification.manifest.schema_version == newest[-1].number
    assert taken.verification.schema_version == step.number
    assert [name for name in taken.verification.manifest.members if name.startswith("sources/")]


def test_a_database_that_is_damaged_leaves_no_file(world: World, directory: Path, tmp_path: Path):
    world.storage.close()
    with apsw.Connection(str(directory / "ci-daemon.sqlite3")) as database:
        database.execute("PRAGMA foreign_keys = OFF")
        database.execute("UPDATE pipelines SET organization_id = 4711")
    with pytest.raises(DatabaseUnreadable, match="rows that refer to missing rows"):
        backup(directory, tmp_path / "x.backup")
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_a_full_disk_leaves_no_file(world: World, directory: Path, tmp_path: Path):
    world.build(source_archive=os.urandom(2**22))
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (2**21, 2**21))\n"
    program = limited + "from ci_daemon.command import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "--state-dir", str(directory), "backup"]
    done = subprocess.run([*command, str(tmp_path / "x.backup")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*command, "-"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert "the disk is full" in done.stderr


def test_an_interrupted_backup_leaves_no_file(world: World, directory: Path, tmp_path: Path):
    world.build(source_archive=os.urandom(2**20))
    os.mkfifo(tmp_path / "out")
    command = [sys.executable, "-m", "ci_daemon", "--state-dir", str(directory), "backup", "-"]
    with ended(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)) as running:
        assert running.stdout is not None
        torn = running.stdout.read(1000)
        running.send_signal(signal.SIGINT)
        torn += running.stdout.read()
        running.wait(30)
    assert running.returncode != 0
    with pytest.raises(BackupError, match="truncated"):
        restore(io.BytesIO(torn), tmp_path / "new")
    assert not (directory / ".backup").exists()


def _scope(world: World) -> SecretScope:
    return SecretScope(world.pipeline.organization_id)
