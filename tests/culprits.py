"""Builds of a default branch of which a later one fails, so that a search for what broke it begins."""

from __future__ import annotations

from storage import (
    Build,
    BuildState,
    CulpritSearch,
    JobState,
    NewBuild,
    Pipeline,
    Storage,
    VerifiedEvent,
)
from tests.records import new_job


def pushed(storage: Storage, pipeline: Pipeline, commit: str, end: JobState | None, key: str = "test") -> Build:
    """Add a build of a push to the default branch, whose one job ends like this."""
    new = NewBuild(
        pipeline.default_branch,
        commit,
        pipeline_ir="{}",
        verified_event=VerifiedEvent.PUSH,
        verified_ref=f"refs/heads/{pipeline.default_branch}",
    )
    build = storage.builds.create(pipeline, new, [new_job(key)])
    if end is not None:
        (job,) = storage.jobs.of_build(build.id)
        assert storage.jobs.move(job.id, JobState.SCHEDULED, end)
        state = BuildState.PASSED if end is JobState.PASSED else BuildState.FAILED
        storage.builds.move(build.id, build.state, state)
    ended = storage.builds.get(build.id)
    assert ended is not None
    return ended


def broken(storage: Storage, pipeline: Pipeline) -> tuple[Build, CulpritSearch]:
    """Return a build of the default branch that failed after one that passed, and the search for why."""
    pushed(storage, pipeline, "900d", JobState.PASSED)
    build = pushed(storage, pipeline, "bad", JobState.FAILED)
    search = storage.culprits.begin(build)
    assert search is not None
    return build, search
