"""`ci-daemon backup` and `restore`: save the service's state in one file, and restore it."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ci_daemon import backup as backups
from ci_daemon import config
from ci_daemon.command.support.command_classes import CallerCommand
from ci_daemon.command.support.exit_codes import ExitCode
from ci_daemon.command.support.session import DEFAULT_STATE_DIR, Failure, Session, pass_session
from ci_daemon.terminal import counted
from ci_daemon.terminal.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ci_daemon.backup import Backup, Manifest, RestoreResult, Verification

_MIB = 2**20
_STREAM = Path("-")


@click.command(cls=CallerCommand)
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--without-key", is_flag=True, help="Leave out secret.key, without which secrets cannot be opened.")
@pass_session
def backup(session: Session, *, file: Path, without_key: bool) -> None:
    """Take a backup into FILE, or to stdout if FILE is -. The service may run, and is not interrupted.

    It contains the database, logs, artifacts, the sources of unfinished builds, the configuration and the key, all as
    of one instant. Keep FILE private: with its key it opens every secret. With --without-key it does not; then keep
    secret.key elsewhere, for `ci-daemon restore --key`.

    It is verified while it is taken: read to its end as `ci-daemon restore` reads it, with every file compared with its
    digest, the database checked, the ledger verified, and every secret opened. A backup that fails is deleted; on
    stdout it ends without its manifest, so that no restore accepts it. The exit code is then 1.

    It does not contain images, which `ci-daemon image build` makes again, nor disks of VMs, including cached ones:
    after a restore the cache is empty, running jobs start again, and a job fails if it builds in a parent that passed
    before the backup.
    """
    configuration, with_key = config.configuration_file(session.state_dir), not without_key
    if file == _STREAM:
        if sys.stdout.isatty():
            raise Failure("stdout is a terminal: pipe the backup, as in `ci-daemon backup - | …`, or give a file")
        out = sys.stdout.buffer
        with _progress("taking the backup") as progress:
            taken = backups.backup_to(
                session.state_dir, out, configuration=configuration, with_key=with_key, progress=progress
            )
            out.flush()
        text = "\n".join(_backup_lines(taken, "stdout"))
        click.echo(json.dumps(_backup_document(taken), indent=2) if session.json else text, err=True)
        return
    if file.is_dir():
        raise Failure(f"{file} is a directory: give a file, as in {file / 'ci-daemon.backup'}")
    with _progress("taking and verifying the backup") as progress:
        taken = backups.backup(
            session.state_dir, file, configuration=configuration, with_key=with_key, progress=progress
        )
    size = file.stat().st_size
    text = "\n".join(_backup_lines(taken, f"{file}, {size} bytes"))
    session.answer({"file": str(file), "bytes": size, **_backup_document(taken)}, text)


@click.command(cls=CallerCommand)
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--key",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The secret.key of a backup that was taken --without-key.",
)
@pass_session
def restore(session: Session, *, file: Path, key: Path | None) -> ExitCode:
    """Restore FILE, or stdin if FILE is -, into a state directory that is empty except for images.

    Every file is compared with its digest, the database is checked page by page and migrated to this release's schema,
    the ledger is verified, and every secret is opened. If that fails, the error is printed and the directory stays
    empty.

    The exit code is also 1 if everything was restored, but had problems before the backup was taken: a ledger that does
    not balance, or lost artifacts or sources.
    """
    try:
        with _progress("restoring") as progress:
            if file == _STREAM:
                restored = backups.restore(sys.stdin.buffer, session.state_dir, key=key, progress=progress)
            else:
                with file.open("rb") as source:
                    restored = backups.restore(source, session.state_dir, key=key, progress=progress)
    except backups.BackupError as error:
        raise Failure(f"{file} is not restored: {error}") from error
    session.answer(
        {
            "state_dir": str(session.state_dir),
            **_document(restored.verification.manifest),
            **_verification_document(restored.verification),
            "configuration": restored.configuration and str(restored.configuration),
        },
        "\n".join(_restore_lines(restored, session.state_dir, session.program)),
    )
    return ExitCode.FAILURE if restored.verification.problems else ExitCode.SUCCESS


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int], None]]:
    """Show the number of processed bytes on a terminal."""
    from rich import progress  # noqa: PLC0415 - the help does without
    from rich.console import Console  # noqa: PLC0415 - the help does without

    console = Console(stderr=True)
    columns = (
        progress.TextColumn(what),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeElapsedColumn(),
    )
    with progress.Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task(what, total=None)
        yield lambda done: shown.advance(task, done)


def _backup_lines(taken: Backup, where: str) -> Iterator[str]:
    manifest = taken.verification.manifest
    key = "" if "secret.key" in manifest.members else ", without the key: keep secret.key elsewhere"
    yield f"saved {_content(manifest)} in {where}{key}"
    yield "verified it by reading it as a restore does:"
    yield from _verification_lines(taken.verification)
    if taken.left_out:
        more = f" and {len(taken.left_out) - 1} more" if taken.left_out[1:] else ""
        yield printable(f"  NOT included, because the service does not know it: {taken.left_out[0]}") + more


def _content(manifest: Manifest) -> str:
    counts = ", ".join(_count(kind.replace("_", " "), count) for kind, count in manifest.counts.items())
    return f"{counts} and {counted(len(manifest.members), 'file')} of {manifest.bytes / _MIB:.1f} MiB"


def _count(rows: str, count: int) -> str:
    """Return the number of the rows of a table, whose name is in the plural."""
    one = f"{rows.removesuffix('ies')}y" if rows.endswith("ies") else rows.removesuffix("s")
    return counted(count, one, rows)


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


def _backup_document(taken: Backup) -> dict[str, object]:
    document = _document(taken.verification.manifest)
    return {**document, "proved": True, **_verification_document(taken.verification), "left_out": list(taken.left_out)}


def _verification_document(verification: Verification) -> dict[str, object]:
    return {
        "schema_version_now": verification.schema_version,
        "secrets": verification.secrets,
        "unfinished_builds": verification.unfinished,
        "discrepancies": [asdict(each) for each in verification.discrepancies],
        "missing": list(verification.missing),
    }


def _verification_lines(verification: Verification) -> Iterator[str]:
    manifest = verification.manifest
    yield "  every file has the digest in the manifest"
    yield "  every page and reference of the database is valid"
    if verification.schema_version != manifest.schema_version:
        yield f"  its schema was upgraded from version {manifest.schema_version} to {verification.schema_version}"
    if verification.secrets is None:
        yield "  the secrets are NOT verified: the key is neither in the backup nor here"
    else:
        yield f"  the key is correct and opens {counted(verification.secrets, 'secret')}"
    if not verification.discrepancies:
        yield "  the ledger balances"
    for problem in verification.problems:
        yield f"  WRONG before the backup was taken: {problem}"


def _restore_lines(restored: RestoreResult, directory: Path, program: str) -> Iterator[str]:
    verification, manifest = restored.verification, restored.verification.manifest
    yield f"restored {directory} as {manifest.state_dir} was at {manifest.created_at}: {_content(manifest)}"
    yield from _verification_lines(verification)
    if verification.unfinished:
        unfinished = counted(verification.unfinished, "unfinished build")
        yield f"  {unfinished} to continue in new VMs when the service starts"
    if restored.configuration is not None:
        aside = "" if restored.configuration.suffix == ".toml" else ": copy the settings that you need"
        yield f"  the configuration is in {restored.configuration}{aside}"
    if directory == DEFAULT_STATE_DIR:
        yield "next: `sudo ci-daemon install`, which gives it to the service and starts that"
    else:
        yield f"next: `{program} doctor`, which checks this machine"
