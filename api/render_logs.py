"""What pipeline files printed when they were rendered (pipeline-ir.md, "Rendering")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors import RENDER_LOG
from api.errors import ApiError
from api.operations import Answer, operation

if TYPE_CHECKING:
    import falcon

    from api.access import Access
    from storage import Storage

__all__ = ["RenderLogs"]


class RenderLogs:
    """``…/builds/{number}/render-log``; at most 1 MiB, so it comes whole."""

    def __init__(self, storage: Storage, access: Access) -> None:
        self._storage = storage
        self._access = access

    @operation(
        "getRenderLog",
        Answer(200, "What was printed; nothing where that is nothing, or not known yet.", media_type="text/plain"),
        errors=(
            "organization_not_found",
            "pipeline_not_found",
            "build_not_found",
            "render_log_not_found",
            "log_expired",
        ),
        security="optional",
    )
    def on_get(self, req: falcon.Request, resp: falcon.Response, org: str, pipeline: str, number: str) -> None:
        """Get what the pipeline files printed when the build was rendered."""
        build = self._access.readable_build(req, org, pipeline, number)
        if self._storage.renders.get(build.id) is None:
            raise ApiError("render_log_not_found", "the build was not rendered here: it came with its pipeline_ir")
        if build.logs_expired_at is not None:
            when = build.logs_expired_at.date().isoformat()
            raise ApiError("log_expired", f"the logs of this build were removed on {when}, as they are kept no longer")
        log = self._storage.logs.reader(build.uuid, RENDER_LOG)
        resp.content_type = "text/plain; charset=utf-8"
        resp.cache_control = ["no-store"]
        resp.data = log.read(0, log.size())
