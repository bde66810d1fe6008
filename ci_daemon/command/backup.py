"""`ci-daemon backup` and `restore`: save the service's state in one file, and restore it."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import DownloadColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn

from ci_daemon import backup as backups
from ci_daemon.command.session import DEFAULT_STATE_DIR, Failure, Session, pass_session
from ci_daemon.command.style import CallersCommand
from ci_daemon.config import file_of
from ci_daemon.terminal.cells import on_one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ci_daemon.backup import Backup, Manifest, Proof, Restored

__all__ = ["backup", "restore"]

_MIB = 2**20
_STREAM = Path("-")


@click.command(cls=CallersCommand)
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--without-key", is_flag=True, help="Leave out secret.key, without which secrets cannot be opened.")
@pass_session
def backup(session: Session, *, file: Path, without_key: bool) -> None:
    """Take a backup into FILE, or to stdout if FILE is -. The service may run, and is not interrupted.

    It contains the database, logs, artifacts, the sources of unfinished builds, the configuration and the key, all as
    of one instant. Keep FILE private: with its key it opens every secret. With --without-key it does not; then keep
    secret.key elsewhere, for `ci-daemon restore --key`.

    It is proved as it is taken: read to its end as `ci-daemon restore` reads it, with every file compared with its
    digest, the database checked, the ledger verified, and every secret opened. A backup that fails is deleted; on
    stdout it ends without its manifest, so that no restore accepts it. The exit code is then 1.

    It does not contain images, which `ci-daemon image build` makes again, nor disks of VMs, including cached ones:
    after a restore the cache is empty, running jobs start again, and a job fails if it builds in a parent that passed
    before the backup.
    """
    configuration, with_key = file_of(session.state_dir), not without_key
    if file == _STREAM:
        if sys.stdout.isatty():
            raise Failure("a terminal has no use for a backup: write `ci-daemon backup - | …`, or give a file")
        out = sys.stdout.buffer
        with _progress("taking the backup") as told:
            taken = backups.backup_to(session.state_dir, out, configuration=configuration, with_key=with_key, told=told)
            out.flush()
        text = "\n".join(_taken(taken, "stdout"))
        click.echo(json.dumps(_proof_document(taken), indent=2) if session.json else text, err=True)
        return
    if file.is_dir():
        raise Failure(f"{file} is a directory: name the file, as in {file / 'ci-daemon.backup'}")
    with _progress("taking and proving the backup") as told:
        taken = backups.backup(session.state_dir, file, configuration=configuration, with_key=with_key, told=told)
    size = file.stat().st_size
    text = "\n".join(_taken(taken, f"{file}, {size} bytes"))
    session.answer({"file": str(file), "bytes": size, **_proof_document(taken)}, text)


@click.command(cls=CallersCommand)
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The secret.key of a backup that was taken --without-key.",
)
@pass_session
def restore(session: Session, *, file: Path, key: Path | None) -> int:
    """Restore FILE, or stdin if FILE is -, into a state directory that is empty except for images.

    Every file is compared with its digest, the database is checked page by page and migrated to this release's schema,
    the ledger is verified, and every secret is opened. If that fails, the error is printed and the directory stays
    empty.

    The exit code is also 1 if everything was restored, but had faults before the backup was taken: a ledger that does
    not balance, or lost artifacts or sources.
    """
    try:
        with _progress("restoring") as told:
            if file == _STREAM:
                restored = backups.restore(sys.stdin.buffer, session.state_dir, key=key, told=told)
            else:
                with file.open("rb") as source:
                    restored = backups.restore(source, session.state_dir, key=key, told=told)
    except backups.BackupError as error:
        raise Failure(f"{file} is not restored: {error}") from error
    session.answer(
        {
            "state_dir": str(session.state_dir),
            **_document(restored.proof.manifest),
            **_findings(restored.proof),
            "configuration": restored.configuration and str(restored.configuration),
        },
        "\n".join(_told_of(restored, session.state_dir)),
    )
    return 1 if restored.proof.faults else 0


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int], None]]:
    """Show the number of processed bytes on a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn(what), DownloadColumn(), TransferSpeedColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done: progress.advance(task, done)


def _taken(taken: Backup, where: str) -> Iterator[str]:
    manifest = taken.proof.manifest
    key = "" if "secret.key" in manifest.members else ", without the key: keep secret.key elsewhere"
    yield f"saved {_content(manifest)} in {where}{key}"
    yield "proved it by reading it as a restore does:"
    yield from _proven(taken.proof)
    if taken.left_out:
        more = f" and {len(taken.left_out) - 1} more" if taken.left_out[1:] else ""
        yield on_one_line(f"  NOT in it, as nothing in the service has declared it: {taken.left_out[0]}") + more


def _content(manifest: Manifest) -> str:
    counts = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in manifest.counts.items())
    return f"{counts} and {len(manifest.members)} files of {manifest.bytes / _MIB:.1f} MiB"


def _document(manifest: Manifest) -> dict[str, object]:
    return {
        "created_at": manifest.created_at,
        "release": manifest.release,
        "schema_version": manifest.schema_version,
        "with_key": "secret.key" in manifest.members,
        "counts": dict(manifest.counts),
        "files": len(manifest.members),
        "unpacked_bytes": manifest.bytes,
    }


def _proof_document(taken: Backup) -> dict[str, object]:
    document = _document(taken.proof.manifest)
    return {**document, "proved": True, **_findings(taken.proof), "left_out": list(taken.left_out)}


def _findings(proof: Proof) -> dict[str, object]:
    return {
        "schema_version_now": proof.schema_version,
        "secrets": proof.secrets,
        "unfinished_builds": proof.unfinished,
        "discrepancies": [asdict(each) for each in proof.discrepancies],
        "missing": list(proof.missing),
    }


def _proven(proof: Proof) -> Iterator[str]:
    manifest = proof.manifest
    yield "  every file has the digest that the backup's manifest says"
    yield "  the database is sound, page by page and reference by reference"
    if proof.schema_version != manifest.schema_version:
        yield f"  its schema was brought from version {manifest.schema_version} to {proof.schema_version}"
    if proof.secrets is None:
        yield "  the secrets are NOT tried: the key is neither in it nor here"
    else:
        yield f"  the key is the right one, and opens {proof.secrets} secrets"
    if not proof.discrepancies:
        yield "  the books balance"
    for fault in proof.faults:
        yield f"  WRONG before the backup was taken: {fault}"


def _told_of(restored: Restored, directory: Path) -> Iterator[str]:
    proof, manifest = restored.proof, restored.proof.manifest
    yield f"restored {directory} as {manifest.state_dir} was at {manifest.created_at}: {_content(manifest)}"
    yield from _proven(proof)
    if proof.unfinished:
        yield f"  {proof.unfinished} builds are not finished, and go on in other VMs when the service starts"
    if restored.configuration is not None:
        aside = "" if restored.configuration.suffix == ".toml" else ": take from it what you need"
        yield f"  the configuration is in {restored.configuration}{aside}"
    if directory == DEFAULT_STATE_DIR:
        yield "next: `sudo ci-daemon install`, which gives it to the service and starts that"
    else:
        yield "next: `ci-daemon doctor`, which says what this machine lacks"
