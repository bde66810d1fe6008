"""Builds that repeat others: the same source, pipeline and environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from storage import NewBuild, SourceGone

if TYPE_CHECKING:
    from storage import Build, RequestKey, Storage


def repetition(
    storage: Storage, build: Build, source: str, key: RequestKey | None = None
) -> tuple[NewBuild, str | None]:
    """Return a build to create that repeats another one, and the URL of a source not fetched yet.

    The VMs of its failed jobs are not held, whatever the first build asked for. Of an untrusted build it is untrusted
    too, and it needs an approval unless that build has one. Raises SourceGone.
    """
    if build.has_source and build.source_expired_at is not None:
        raise SourceGone(f"the source of build {build.number} is no longer kept; create a new build")
    render = storage.renders.get(build.id)
    new = NewBuild(
        branch=build.branch or "",
        commit=build.commit or "",
        message=build.message,
        source=source,
        env=storage.builds.env(build.id),
        pipeline_ir=storage.builds.pipeline_ir(build.id),
        source_sha256=build.source_sha256,
        key=key,
        rebuild_of=build.number,
        source_of=build.uuid if build.has_source else None,
        untrusted_origin=build.untrusted_origin,
        from_fork=build.from_fork,
        approval_reason=None if build.approved_by else build.approval_reason,
    )
    return new, None if build.has_source or render is None else render.source_url
