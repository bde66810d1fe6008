"""The files that a job takes from the artifacts of others in its build, by its ``files``."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from actors.ir.triggers import Globs
from actors.vms import LaidFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage import Artifact, Job, Storage

_MOST_FILES = 100_000
_SHOWN = 5


class FilesMissing(Exception):
    """Files that a job takes are not there; the message says which, and what is there."""


def taken_artifacts(storage: Storage, job: Job) -> list[Artifact]:
    """Return the artifacts that a job takes, by their paths. Raises FilesMissing.

    Each glob selects at least one file of the job that it is about, whose cells count together, and no two jobs may
    give it one path.
    """
    found: dict[str, tuple[str, Artifact]] = {}
    by_key = _producers(storage, job)
    for key, globs in _taken(job).items():
        kept = [(each.step_key, artifact) for each in by_key[key] for artifact in storage.artifacts.of_job(each.id)]
        for glob in globs:
            matching = Globs([glob])
            chosen = [(maker, artifact) for maker, artifact in kept if matching.match(artifact.path)]
            if not chosen:
                raise FilesMissing(f'"{key}" has kept no file that matches "{glob}": {_listed(kept)}')
            for maker, artifact in chosen:
                other, known = found.setdefault(artifact.path, (maker, artifact))
                if known.uuid != artifact.uuid:
                    raise FilesMissing(
                        f'"{other}" and "{maker}" have both kept "{artifact.path}": give them other names'
                    )
    if len(found) > _MOST_FILES:
        raise FilesMissing(f"it takes {len(found):,} files, and a job may take {_MOST_FILES:,}")
    return [found[path][1] for path in sorted(found)]


def taken_files(storage: Storage, job: Job) -> list[LaidFile]:
    """Return the files to lay into a job's workspace. Raises FilesMissing, also for too many bytes."""
    artifacts = taken_artifacts(storage, job)
    size, most = sum(each.file_size for each in artifacts), job.shape.disk_gb << 30
    if size > most:
        raise FilesMissing(
            f"the files that it takes have {size:,} bytes, and its disk {most:,}: ask for a larger `disk`"
        )
    return [LaidFile(each.path, each.file_size, each.executable, storage.artifacts.path(each)) for each in artifacts]


def _producers(storage: Storage, job: Job) -> dict[str, list[Job]]:
    """Return the jobs of each key that a job takes files of, in their order."""
    before = {edge.from_id for edge in storage.jobs.edges(job.build_id) if edge.to_id == job.id}
    found: dict[str, list[Job]] = {key: [] for key in _taken(job)}
    for each in storage.jobs.of_build(job.build_id):
        if each.id in before and each.plan_key in found:
            found[each.plan_key].append(each)
    return found


def _taken(job: Job) -> dict[str, list[str]]:
    return {key: cast("list[str]", globs) for key, globs in job.files.items()}


def _listed(kept: Sequence[tuple[str, Artifact]]) -> str:
    """Return in words what there is."""
    if not kept:
        return "it has kept none"
    more = f" and {len(kept) - _SHOWN:,} more" if len(kept) > _SHOWN else ""
    return f"it has kept {', '.join(artifact.path for _, artifact in kept[:_SHOWN])}{more}"
