"""`ci-daemon artifact`: list, get and verify the files that jobs kept, on the box or of a server."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from actors.ir import Globs
from api.operations import artifacts, jobs
from ci_daemon.command.support.command_classes import CallerCommand, Group, SharedCommand
from ci_daemon.command.support.names import BuildName, build_argument
from ci_daemon.command.support.session import Failure, Session, pass_session
from ci_daemon.terminal.text import printable
from storage import document_of, timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import BinaryIO

    from api.doors import Door
    from api.operations import ArtifactRecord

_COLUMNS = ("path", "job", "file_size", "created_at")

_job_option = click.option("--job", "step", metavar="STEP", help="Only those of the job with this key.")


@click.group(cls=Group)
def artifact() -> None:
    """Artifacts: files that jobs keep."""


@artifact.command(name="list", cls=SharedCommand, reads=True)
@build_argument
@click.argument("globs", metavar="[GLOB]...", nargs=-1)
@_job_option
@pass_session
def list_artifacts(session: Session, *, name: BuildName, globs: tuple[str, ...], step: str | None) -> None:
    """List the artifacts of a build whose paths match a GLOB, as in "dist/**"; by default all."""
    with session.door() as door:
        documents = [_document(each, job) for each, job in _chosen(door, name, globs, step)]
    session.table(
        documents, _COLUMNS, f"build {name} has no such artifact" if globs or step else f"build {name} has no artifacts"
    )


@artifact.command(cls=SharedCommand, reads=True)
@build_argument
@click.argument("globs", metavar="[GLOB]...", nargs=-1)
@_job_option
@click.option(
    "--to",
    "folder",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder to write them to, below their own paths; by default one that is named PIPELINE-NUMBER.",
)
@click.option(
    "--provenance",
    "proven",
    is_flag=True,
    help="Also write the signed statement of how each was made, into FILE.provenance.json beside it.",
)
@pass_session
def get(
    session: Session, *, name: BuildName, globs: tuple[str, ...], step: str | None, folder: Path | None, proven: bool
) -> None:
    """Get the artifacts of a build whose paths match a GLOB, as in "dist/**"; by default all.

    Nothing that is there is overwritten. The hash of each file is checked. After an interruption, the same command goes
    on where it was.
    """
    from ci_daemon.remote.download import download, place  # noqa: PLC0415 - a list needs no client
    from ci_daemon.remote.errors import Backoff  # noqa: PLC0415 - the same
    from ci_daemon.terminal.progress import transfer_progress  # noqa: PLC0415 - the same

    # a statement names the service by its address, which the door of repositories knows
    with session.repositories_door() if proven else session.door() as door:
        chosen = [each for each, _ in _chosen(door, name, globs, step)]
        if not chosen:
            if not globs and step is None:
                raise Failure(f"build {name} has no artifacts")
            raise Failure(f"build {name} has no such artifact: `ci-daemon artifact list {name}` shows what it has")
        _refuse_twins(chosen)
        written = []
        for each in chosen:
            file = place(folder or Path(f"{name.pipeline}-{name.number}"), each.path)
            with transfer_progress(each.path, each.file_size) as progress:
                open_from = partial(door.download, artifacts.download_artifact, {**name.names, "id": each.uuid})
                new = download(each, file, open_from, Backoff(), progress)
            written.append({"path": str(file), "file_size": each.file_size, "sha256": each.sha256, "written": new})
            if proven:
                envelope = door.perform(artifacts.get_artifact_provenance, {**name.names, "id": each.uuid})
                beside = file.with_name(f"{file.name}.provenance.json")
                beside.write_text(json.dumps(document_of(envelope)), encoding="utf-8")
            if not session.json:
                click.echo(f"{printable(file)}{'' if new else ' (was there already)'}")
    if session.json:
        session.answer(written, "")


@artifact.command(cls=CallerCommand, reads=True)
@click.argument("file", type=click.File("rb"))
@click.option(
    "--provenance",
    "envelope",
    metavar="FILE",
    required=True,
    type=click.File("rb"),
    help="The provenance of the file, as the service gave it.",
)
@click.option("--issuer", metavar="URL", help="The service that must have built it, which is asked for its keys.")
@click.option(
    "--key", metavar="FILE", type=click.File("rb"), help="Keys that are trusted, in place of asking: a JWK set, or PEM."
)
@click.option("--repository", metavar="URL", help="The repository that it must be of.")
@click.option("--ref", metavar="REF", help="The branch, or full name such as refs/tags/v1, that it must be of.")
@click.option("--commit", metavar="SHA", help="The commit that it must be of.")
@click.option("--pipeline", metavar="ORG/PIPELINE", help="The pipeline that must have built it.")
@pass_session
def verify(
    session: Session,
    *,
    file: BinaryIO,
    envelope: BinaryIO,
    issuer: str | None,
    key: BinaryIO | None,
    repository: str | None,
    ref: str | None,
    commit: str | None,
    pipeline: str | None,
) -> None:
    """Verify that a service built FILE, and of what.

    Say at least --repository and --ref, or --pipeline: others may build with the same service.
    """
    from ci_daemon.remote import provenance  # noqa: PLC0415 - a list needs no keys

    if issuer is None and key is None:
        raise click.UsageError("say whom you trust: --issuer URL, or --key FILE")
    expected = provenance.Expected(issuer, repository, ref, pipeline, commit)
    try:
        trusted = provenance.keys_of(
            provenance.keys_at(issuer or "") if key is None else key.read(provenance.MAX_BYTES)
        )
        made = provenance.verified(envelope.read(provenance.MAX_BYTES), trusted, provenance.digest_of(file), expected)
    except provenance.NotVerified as error:
        raise Failure(f"{printable(file.name)} is not verified: {error}") from error
    of = f"{made.repository} at {made.ref}, commit {made.commit}" if made.ref else "a source that nobody verified"
    fork = ", a pull request of a fork" if made.fork else ""
    text = f"{file.name} is verified: {made.builder} built it in {made.pipeline} of {of}{fork}"
    session.answer({"file": file.name, **asdict(made)}, printable(text))


def _chosen(
    door: Door, name: BuildName, globs: Sequence[str], key: str | None
) -> list[tuple[ArtifactRecord, str | None]]:
    """Return the wanted artifacts, each with the key of its job."""
    keys = {job.uuid: job.step_key for job in door.rows(jobs.list_jobs, name.names)}
    if key is not None and key not in keys.values():
        raise Failure(f"build {name} has no step {key}: `ci-daemon build show {name}` shows all")
    matches: Callable[[str], bool] = Globs(globs).match if globs else lambda _path: True
    found = [(each, keys.get(each.job_id)) for each in door.rows(artifacts.list_build_artifacts, name.names)]
    return [(each, of_job) for each, of_job in found if key in {None, of_job} and matches(each.path)]


def _refuse_twins(chosen: Sequence[ArtifactRecord]) -> None:
    """Raise Failure if two artifacts have the same path."""
    path, count = Counter(each.path for each in chosen).most_common(1)[0]
    if count > 1:
        raise Failure(f"{count} jobs kept {printable(path)}: choose one with --job STEP")


def _document(each: ArtifactRecord, job: str | None) -> dict[str, object]:
    return {
        "id": each.uuid,
        "path": each.path,
        "job": job,
        "file_size": each.file_size,
        "sha256": each.sha256,
        "created_at": timestamp(each.created_at),
    }
