"""The files that a job takes: artifacts of its build, by ``files``, and of others, by ``files_of``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from actors.ir.triggers import Globs
from actors.vms import LaidFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from storage import Artifact, Build, Job, Pipeline, Storage

_HEADS = "refs/heads/"
_MOST_FILES = 100_000
_SHOWN = 5


class FilesMissing(Exception):
    """Files that a job takes are not there; the message says which, and what is there."""


class Taken(NamedTuple):
    """The artifacts that a job takes of one build, by their paths; ``of`` says in words whose they are."""

    of: str
    artifacts: list[Artifact]


class TakenFiles(NamedTuple):
    """The files to lay into a job's workspace, and in words whose they are."""

    words: list[str]
    files: list[LaidFile]


def taken_artifacts(storage: Storage, build: Build, job: Job) -> list[Taken]:
    """Return the artifacts that a job of a build takes, first those of its own build. Raises FilesMissing.

    Each glob selects at least one file of the job that it is about, whose cells count together, and no two jobs may
    give one path.
    """
    found: dict[str, tuple[str, Artifact]] = {}
    taken: list[Taken] = []
    for of_build, producers, globs in _sources(storage, build, job):
        paths: dict[str, Artifact] = {}
        for maker, artifact in _selected(storage, of_build, producers, globs):
            other, known = found.setdefault(artifact.path, (maker, artifact))
            if known.uuid != artifact.uuid:
                raise FilesMissing(f'{other} and {maker} have both kept "{artifact.path}": give them other names')
            paths[artifact.path] = artifact
        from_build = f" from build {of_build.name}" if of_build is not None else ""
        taken.append(Taken(f"{', '.join(globs)}{from_build}", [paths[path] for path in sorted(paths)]))
    if len(found) > _MOST_FILES:
        raise FilesMissing(f"it takes {len(found):,} files, and a job may take {_MOST_FILES:,}")
    return taken


def taken_files(storage: Storage, build: Build, job: Job) -> TakenFiles:
    """Return the files to lay into a job's workspace. Raises FilesMissing, also for too many bytes."""
    taken = taken_artifacts(storage, build, job)
    artifacts = [artifact for each in taken for artifact in each.artifacts]
    size, most = _bytes(artifacts), job.shape.disk_gb << 30
    if size > most:
        raise FilesMissing(
            f"the files that it takes have {size:,} bytes, and its disk {most:,}: ask for a larger `disk`"
        )
    files = [LaidFile(each.path, each.file_size, each.executable, storage.artifacts.path(each)) for each in artifacts]
    return TakenFiles([_in_words(each) for each in taken], files)


def _sources(
    storage: Storage, build: Build, job: Job
) -> Iterator[tuple[Build | None, list[Job], Mapping[str, list[str]]]]:
    """Yield the builds that a job takes files of, each with its jobs and the globs of these.

    None stands for its own build, of which only the jobs before it are among them. Raises FilesMissing.
    """
    own, others = _globs(job.files), cast("Mapping[str, Mapping[str, object]]", job.files_of)
    if own:
        before = {edge.from_id for edge in storage.jobs.edges(job.build_id) if edge.to_id == job.id}
        yield None, [each for each in storage.jobs.of_build(job.build_id) if each.id in before], own
    for source, globs in others.items():
        taken = _taken_build(storage, build, source)
        yield taken, storage.jobs.of_build(taken.id), _globs(globs)


def _selected(
    storage: Storage, build: Build | None, producers: Iterable[Job], globs_by_key: Mapping[str, list[str]]
) -> Iterator[tuple[str, Artifact]]:
    """Yield what globs select of the jobs of a build, with the name of its job. Raises FilesMissing."""
    of_build = "" if build is None else f" of {build.name}"
    jobs: dict[str, list[Job]] = {key: [] for key in globs_by_key}
    for each in producers:
        if each.plan_key in jobs:
            jobs[each.plan_key].append(each)
    for key, globs in globs_by_key.items():
        if build is not None and not jobs[key]:
            raise FilesMissing(f'{build.name} has no job "{key}"')
        kept = [
            (f'"{each.step_key}"{of_build}', artifact)
            for each in jobs[key]
            for artifact in storage.artifacts.of_job(each.id)
        ]
        for glob in globs:
            matching = Globs([glob])
            chosen = [each for each in kept if matching.match(each[1].path)]
            if not chosen:
                raise FilesMissing(f'"{key}"{of_build} has kept no file that matches "{glob}": {_listed(kept)}')
            yield from chosen


def _taken_build(storage: Storage, build: Build, source: str) -> Build:
    """Return the build that a build takes for a pipeline and perhaps its branch. Raises FilesMissing.

    It is the one that the build follows, if it is of this pipeline and branch, else the last one that passed as a job
    asked first; other jobs and later attempts get files of the same.
    """
    name, _, branch = source.partition("@")
    pipeline = storage.pipelines.named(build.organization_id, build.pipeline_id, name)
    if pipeline is None:
        raise FilesMissing(f'there is no pipeline "{name}" in {build.organization_slug} to take files of')
    if build.untrusted and not pipeline.artifacts_public:
        raise FilesMissing(
            f'it takes files of "{name}", which are for members: a fork\'s pull request gets public artifacts alone'
        )
    taken_id = storage.taken_builds.get(build.id, source)
    if taken_id is None:
        named = branch or pipeline.default_branch
        latest = _followed(storage, build, pipeline, named) or storage.builds.latest_verified(pipeline.id, named)
        if latest is None:
            of_pipeline = f"{build.organization_slug}/{pipeline.slug}"
            raise FilesMissing(
                f'no build of {of_pipeline} on the branch "{named}" has passed yet, of those that the service started'
                " for the branch or an admin submitted"
            )
        taken_id = storage.taken_builds.take(build.id, source, latest.id)
    taken = storage.builds.get(taken_id)
    if taken is None:
        raise FilesMissing(f'the build of "{name}" whose files this build takes was deleted: rebuild it')
    expired_at = storage.artifacts.expired_at(taken.id)
    if expired_at is not None:
        when = expired_at.date().isoformat()
        raise FilesMissing(f"the artifacts of {taken.name} were deleted on {when}: build it again, then rebuild this")
    return taken


def _followed(storage: Storage, build: Build, pipeline: Pipeline, branch: str) -> Build | None:
    """Return the build that a build follows, if it is of a pipeline and branch. Raises FilesMissing.

    A member may say of a build what its branch is, and another one of the pipeline is not what was followed.
    """
    upstream_id = storage.pipeline_triggers.upstream_id(build.id)
    upstream = None if upstream_id is None else storage.builds.get(upstream_id)
    if upstream is None or (upstream.pipeline_id, upstream.branch) != (pipeline.id, branch):
        return None
    if upstream.verified_ref != f"{_HEADS}{branch}":
        raise FilesMissing(
            f'it follows {upstream.name}, whose branch "{branch}" neither the service nor an admin has verified:'
            " files of such a build are not taken"
        )
    return upstream


def _globs(globs: Mapping[str, object]) -> dict[str, list[str]]:
    return {key: cast("list[str]", each) for key, each in globs.items()}


def _bytes(artifacts: Iterable[Artifact]) -> int:
    return sum(each.file_size for each in artifacts)


def _in_words(taken: Taken) -> str:
    count = f"{len(taken.artifacts):,} file{'' if len(taken.artifacts) == 1 else 's'}"
    return f"files of {taken.of}: {count}, {_bytes(taken.artifacts):,} bytes"


def _listed(kept: Sequence[tuple[str, Artifact]]) -> str:
    """Return in words what there is."""
    if not kept:
        return "it has kept none"
    more = f" and {len(kept) - _SHOWN:,} more" if len(kept) > _SHOWN else ""
    return f"it has kept {', '.join(artifact.path for _, artifact in kept[:_SHOWN])}{more}"
